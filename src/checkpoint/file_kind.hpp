// What a file is, by its first bytes: people name downloads that went wrong and weights of other
// tools, and the sentence they get should say what lies there and which command helps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace microscale {

enum class FileKind : std::uint8_t {
  unknown,  // safetensors, too: its reader says what is wrong with one
  empty,
  zeros,            // a download that reserved its room and did not begin
  git_lfs_pointer,  // the text that git keeps in place of a large file
  html,
  xml,
  json,
  pytorch_zip,  // torch.save since version 1.6
  pickle,       // torch.save before that, and any other pickle
  numpy,
  numpy_zip,
  zip,
  gguf,
  ggml,
  onnx,
  hdf5,
  msgpack,
  tflite,
  archive,  // gzip, xz, zstd, 7z, tar
  text,
};

/// Enough for kind_of_bytes.
inline constexpr std::size_t first_bytes = 512;

/// `start`: the first bytes of a file, all of them or at least first_bytes. A file that begins as
/// safetensors does is `unknown`.
FileKind kind_of_bytes(std::string_view start);

/// "is a Git LFS pointer in place of the file itself; fetch that with `git lfs pull`"; empty for
/// `unknown`. `start` is quoted where it is a server's answer. No quotes around a name, no period.
std::string explain_kind(FileKind kind, std::string_view start);

/// Of a file; `unknown` also where it cannot be read.
FileKind kind_of_file(const std::filesystem::path& path);

/// As explain_kind, for a file; empty also where it cannot be read.
std::string explain_file(const std::filesystem::path& path);

/// Only what a download puts in place of any file, be it weights or not: a Git LFS pointer, a page
/// or an answer of a server, zeros.
std::string explain_misdownload(const std::filesystem::path& path);

/// Whether a file is a Git LFS pointer.
bool is_git_lfs_pointer(const std::filesystem::path& path);

}  // namespace microscale
