// repack_to_containers and back on device memory.
#include <array>

#include "cuda/kernel_table.hpp"
#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "cuda/device/launch.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/quantize/operations.hpp"

namespace microscale::cuda {

void repack_containers(Device& device, const std::uint8_t* input, std::uint8_t* output,
                       std::int64_t code_bytes, bool to_containers, Stream stream) {
  if (code_bytes == 0) return;
  const char* operation = to_containers ? "repack_to_containers" : "repack_from_containers";
  const std::array<Operand, 2> operands{Operand{to_containers ? "codes" : "containers", input,
                                                to_containers ? code_bytes : 2 * code_bytes, false},
                                        Operand{to_containers ? "containers" : "codes", output,
                                                to_containers ? 2 * code_bytes : code_bytes, true}};
  check_operands(device, operation, operands);
  launch(device,
         to_containers ? kernels::containers_from_codes() : kernels::codes_from_containers(),
         operation, container_launch(code_bytes), ContainerArgs{input, output, code_bytes}, stream);
}

}  // namespace microscale::cuda
