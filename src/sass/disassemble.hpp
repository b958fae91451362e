// From a cubin to a listing, by NVIDIA's nvdisasm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "sass/listing.hpp"

namespace microscale::sass {

/// nvdisasm: what MICROSCALE_NVDISASM names, else the one on the PATH, in CUDA_HOME or CUDA_PATH,
/// or in /usr/local/cuda. Empty where there is none.
std::filesystem::path find_nvdisasm();

/// What to do where find_nvdisasm() is empty, in words.
std::string_view nvdisasm_advice();

/// `files`: with Instruction::file, where the cubin says it. Throws Error{unsupported} without
/// nvdisasm, Error{bad_input} where it refuses the cubin, Error{io}.
Listing disassemble(std::span<const std::uint8_t> cubin, bool files = false);

/// What assembled a cubin: "13.0, V13.0.88", as ptxas says of itself there; empty if it does not.
std::string assembler_of(std::span<const std::uint8_t> cubin);

/// A cubin, or the text of a disassembly.
Listing listing_of_file(const std::filesystem::path& path);

}  // namespace microscale::sass
