#include "launched_ranks.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "microscale/error.hpp"

#if defined(MICROSCALE_HAS_MPI)
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>
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
    MPI_Request request;
    MPI_Ibcast(&size, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD, &request);
    sleep_until_done(request);
    std::string received(text);
    received.resize(size);
    MPI_Ibcast(received.data(), static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    sleep_until_done(request);
    return received;
  }
  void wait_for_all() override {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    sleep_until_done(request);
  }

 private:
  // MPI's own waiting takes a whole core, which another rank of the machine may still have work
  // for.
  static void sleep_until_done(MPI_Request& request) {
    constexpr std::chrono::microseconds longest(20'000);
    std::chrono::microseconds pause(20);
    for (int done = 0;; pause = std::min(2 * pause, longest)) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done) return;
      std::this_thread::sleep_for(pause);
    }
  }

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
