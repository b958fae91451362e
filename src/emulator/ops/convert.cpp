#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

MICROSCALE_PORTABLE_BEGIN
#include "emulator/ops/generic/lanes.hpp"
#include "emulator/ops/generic/half_lanes.hpp"
#include "emulator/ops/generic/convert_integer.hpp"
#include "emulator/ops/generic/convert.hpp"
MICROSCALE_PORTABLE_END

MICROSCALE_EMULATOR_AVX2_BEGIN
#include "emulator/ops/generic/lanes.hpp"
#include "emulator/ops/generic/half_lanes.hpp"
#include "emulator/ops/generic/convert_integer.hpp"
#include "emulator/ops/generic/convert.hpp"
MICROSCALE_EMULATOR_AVX2_END
