// Whether this process may use the matrix tiles of AMX.
#pragma once

namespace microscale::amx {

/// The processor and the system have tiles with BF16 products, and FP16 vectors (every processor
/// with tiles so far), and the system has let this process use the tiles: it is asked once, on the
/// first call, for all threads to come.
bool permitted();

}  // namespace microscale::amx
