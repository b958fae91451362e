#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

MICROSCALE_PORTABLE_BEGIN
#include "emulator/ops/generic/lanes.hpp"
#include "emulator/ops/generic/carried.hpp"
#include "emulator/ops/generic/integer.hpp"
MICROSCALE_PORTABLE_END

MICROSCALE_EMULATOR_AVX2_BEGIN
#include "emulator/ops/generic/lanes.hpp"
#include "emulator/ops/generic/carried.hpp"
#include "emulator/ops/generic/integer.hpp"
MICROSCALE_EMULATOR_AVX2_END
