#include "launched_ranks.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "microscale/error.hpp"

#if defined(MICROSCALE_HAS_MPI)
#include <mpi.h>
#endif

namespace microscale {
namespace {

// What Open MPI's, MPICH's and Slurm's launchers tell each process of a job of several; 1 without.
int launched_count() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* text = std::getenv(name)) {
      const int count = std::atoi(text);
      if (count > 1) return count;
    }
  }
  return 1;
}

}  // namespace

#if defined(MICROSCALE_HAS_MPI)

namespace {

// MPI's own handler ends all ranks when one of these fails, so nothing is checked here.
class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  std::string from_first(const std::string& text) override {
    auto size = static_cast<unsigned long long>(text.size());
    MPI_Bcast(&size, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    std::string received(text);
    received.resize(size);
    MPI_Bcast(received.data(), static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD);
    return received;
  }
  void wait_for_all() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  int rank_ = 0, count_ = 1;
};

}  // namespace

Ranks& launched_ranks() {
  if (launched_count() == 1) return one_rank();
  static MpiRanks ranks;
  return ranks;
}

void leave_ranks(int code) {
  int begun = 0;
  MPI_Initialized(&begun);
  if (!begun) return;
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
}

#else

Ranks& launched_ranks() {
  if (const int count = launched_count(); count > 1) {
    throw Error(ErrorCode::unsupported,
                fmt::format("quantize: this is one of {} processes that a launcher started, and "
                            "the program was built without MPI; build it with "
                            "-D MICROSCALE_MPI=ON, or start it once",
                            count));
  }
  return one_rank();
}

void leave_ranks(int) {}

#endif

}  // namespace microscale
