// The processes that mpirun or srun started together with this one.
#pragma once

#include "checkpoint/ranks.hpp"

namespace microscale {

/// Begins MPI where a launcher started several processes; one_rank() otherwise. Throws
/// Error{unsupported} where there are several and the program was built without MPI, because they
/// would all write the same files.
Ranks& launched_ranks();

/// Ends MPI, if launched_ranks began it. With a code other than 0 it ends every rank with that
/// code, as the others would wait for this one.
void leave_ranks(int code);

}  // namespace microscale
