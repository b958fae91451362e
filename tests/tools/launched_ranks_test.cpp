// A program without MPI that a launcher started several times: all of them would write the same
// files. With MPI it is looked at by scripts/test_ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

Outcome quantize_with(const Folders& folders, const Environment& environment) {
  return microscale({"quantize", folders.dense(), "-o", folders.nowhere(), "--format", "nvfp4"}, "",
                    environment);
}

TEST(LaunchedRanks, are_refused_by_a_program_without_mpi) {
  const Folders folders;
  ASSERT_EQ(microscale({"dequantize", folders.quantized(), "-o", folders.dense()}).code, 0);
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const Outcome run = quantize_with(folders, {{name, "4"}});
    EXPECT_EQ(run.code, 2) << run.err;
    EXPECT_NE(run.err.find("one of 4 processes that a launcher started"), std::string::npos)
        << run.err;
    EXPECT_NE(run.err.find("MICROSCALE_MPI=ON"), std::string::npos) << run.err;
    EXPECT_FALSE(std::filesystem::exists(folders.nowhere())) << "nothing was written";
  }
}

TEST(LaunchedRanks, are_one_where_the_launcher_started_one) {
  const Folders folders;
  ASSERT_EQ(microscale({"dequantize", folders.quantized(), "-o", folders.dense()}).code, 0);
  const Outcome run = quantize_with(folders, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(run.code, 0) << run.err;
}

}  // namespace
}  // namespace microscale::testing
