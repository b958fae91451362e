#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

MICROSCALE_PORTABLE_BEGIN
#include "emulator/ops/generic/lanes.hpp"
#include "emulator/ops/generic/pack.hpp"
#include "emulator/ops/generic/shifts.hpp"
#include "emulator/ops/generic/bits.hpp"
MICROSCALE_PORTABLE_END

MICROSCALE_EMULATOR_AVX2_BEGIN
#include "emulator/ops/generic/lanes.hpp"
#include "emulator/ops/generic/pack.hpp"
#include "emulator/ops/generic/shifts.hpp"
#include "emulator/ops/generic/bits.hpp"
MICROSCALE_EMULATOR_AVX2_END
