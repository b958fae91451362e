#include "checkpoint/file_kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "checkpoint/file.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

using Bytes = std::string_view;

constexpr std::size_t quoted_bytes = 80;  // of a server's answer

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Without a byte-order mark and blanks.
Bytes without_blanks(Bytes text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

bool begins_with_word(Bytes text, Bytes word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char wanted, char c) {
           return wanted == (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
         });
}

// Eight bytes of a length that no header exceeds, then an object of JSON.
bool looks_like_safetensors(Bytes start) {
  if (start.size() < 9 || start.substr(4, 4) != Bytes("\0\0\0\0", 4)) return false;
  return without_blanks(start.substr(8)).starts_with('{');
}

bool is_text(Bytes start) {
  return std::all_of(start.begin(), start.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7F : is_blank(c);
  });
}

FileKind kind_of_zip(Bytes start) {
  if (start.find("/data.pkl") != Bytes::npos || start.find("/version") != Bytes::npos ||
      start.find("data.pkl") != Bytes::npos) {
    return FileKind::pytorch_zip;
  }
  return start.find(".npy") != Bytes::npos ? FileKind::numpy_zip : FileKind::zip;
}

// A protobuf that begins with ir_version and goes on with what a model has next: the producer's
// name (2), the graph (7) or the sets of operators (8).
bool looks_like_onnx(Bytes start) {
  if (start.size() < 4 || start[0] != 0x08 || start[1] < 3 || start[1] > 20) return false;
  return start[2] == 0x12 || start[2] == 0x3A || start[2] == 0x42;
}

// A map whose first key is a string of printable characters.
bool looks_like_msgpack(Bytes start) {
  if (start.size() < 4) return false;
  const auto first = static_cast<unsigned char>(start[0]);
  std::size_t at = 0;
  if (first >= 0x81 && first <= 0x8F) at = 1;
  if (first == 0xDE) at = 3;
  if (first == 0xDF) at = 5;
  if (at == 0 || at >= start.size()) return false;
  const auto key = static_cast<unsigned char>(start[at]);
  if (key < 0xA1 || key > 0xBF) return false;
  const Bytes text = start.substr(at + 1, key & 0x1F);
  return !text.empty() && is_text(text);
}

bool is_archive(Bytes start) {
  constexpr std::array<Bytes, 5> marks{"\x1F\x8B",
                                       "\xFD"
                                       "7zXZ",
                                       "\x28\xB5\x2F\xFD", "7z\xBC\xAF", "Rar!"};
  return std::any_of(marks.begin(), marks.end(),
                     [&](Bytes mark) { return start.starts_with(mark); }) ||
         (start.size() > 262 && start.substr(257, 5) == "ustar");
}

// `lmgg`, `fmgg`, `tjgg`, `algg`: numbers of llama.cpp before GGUF, little-endian.
bool is_ggml(Bytes start) {
  return start.size() > 3 && start.substr(2, 2) == "gg" &&
         (start.starts_with("lm") || start.starts_with("fm") || start.starts_with("tj") ||
          start.starts_with("la"));
}

FileKind kind_of_text(Bytes start) {
  const Bytes text = without_blanks(start);
  if (text.starts_with("version https://git-lfs.github.com/spec/")) {
    return FileKind::git_lfs_pointer;
  }
  if (begins_with_word(text, "<!doctype html") || begins_with_word(text, "<html") ||
      begins_with_word(text, "<head")) {
    return FileKind::html;
  }
  if (text.starts_with('<')) return FileKind::xml;
  if (text.starts_with('{') || text.starts_with('[')) return FileKind::json;
  return is_text(start) ? FileKind::text : FileKind::unknown;
}

// Nothing where the file cannot be read.
std::optional<std::string> start_of(const std::filesystem::path& path) {
  const auto file = InputFile::open(path);
  if (!file) return std::nullopt;
  std::string start(std::min<std::uint64_t>(first_bytes, file.value().size()), '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(start.data());
  if (!file.value().read_at(0, {bytes, start.size()})) return std::nullopt;
  return start;
}

}  // namespace

FileKind kind_of_bytes(Bytes start) {
  if (start.empty()) return FileKind::empty;
  if (start.find_first_not_of('\0') == Bytes::npos) return FileKind::zeros;
  if (looks_like_safetensors(start)) return FileKind::unknown;
  if (start.starts_with("PK\x03\x04")) return kind_of_zip(start);
  if (start.starts_with("GGUF")) return FileKind::gguf;
  if (is_ggml(start)) return FileKind::ggml;
  if (start.starts_with("\x89HDF\r\n\x1A\n")) return FileKind::hdf5;
  if (start.starts_with("\x93NUMPY")) return FileKind::numpy;
  if (start.size() > 7 && start.substr(4, 4) == "TFL3") return FileKind::tflite;
  if (is_archive(start)) return FileKind::archive;
  if (start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return FileKind::pickle;
  }
  if (looks_like_onnx(start)) return FileKind::onnx;
  if (looks_like_msgpack(start)) return FileKind::msgpack;
  return kind_of_text(start);
}

std::string explain_kind(FileKind kind, Bytes start) {
  const std::string quoted = in_quotes(without_blanks(start).substr(0, quoted_bytes));
  switch (kind) {
    case FileKind::unknown:
      return "";
    case FileKind::empty:
      return "is empty; download it again";
    case FileKind::zeros:
      return "holds zeros where its header should be, so its download never came to an end; "
             "download it again";
    case FileKind::git_lfs_pointer:
      return "is a Git LFS pointer in place of the file itself; fetch that with `git lfs pull` in "
             "its folder";
    case FileKind::html:
      return "is a web page, most likely a server's page on an error or a login, in place of the "
             "file; download it again (for a gated model after `hf auth login`)";
    case FileKind::xml:
      return fmt::format(
          "is XML, most likely a server's answer in place of the file ({}); download it again",
          quoted);
    case FileKind::json:
      return fmt::format(
          "is JSON, not weights, perhaps a server's answer in place of the file ({}); download it "
          "again",
          quoted);
    case FileKind::pytorch_zip:
    case FileKind::pickle:
      return "is a PyTorch pickle; write it as safetensors first: `python -c \"import sys, torch; "
             "from safetensors.torch import save_file; w = torch.load(sys.argv[1], "
             "map_location='cpu', weights_only=True); save_file({k: v.clone().contiguous() for "
             "k, v in w.items()}, sys.argv[2])\" IN OUT.safetensors`";
    case FileKind::numpy:
    case FileKind::numpy_zip:
      return "holds arrays of NumPy; write them as safetensors first (safetensors.numpy.save_file)";
    case FileKind::zip:
      return "is a zip archive; unpack it and name what is inside";
    case FileKind::gguf:
      return "is a GGUF file of llama.cpp; name it by itself, under a name that ends in .gguf";
    case FileKind::ggml:
      return "is a GGML file of llama.cpp from before GGUF, which is not read; start from the "
             "model's .safetensors files, from which it was made";
    case FileKind::onnx:
      return "is an ONNX model, which is not read; start from the model's .safetensors files";
    case FileKind::hdf5:
      return "is an HDF5 file of TensorFlow or Keras; write the model as safetensors first "
             "(transformers: from_pretrained(..., from_tf=True), then save_pretrained)";
    case FileKind::msgpack:
      return "is a msgpack file of Flax; write the model as safetensors first (transformers: "
             "from_pretrained(..., from_flax=True), then save_pretrained)";
    case FileKind::tflite:
      return "is a TensorFlow Lite model, which is not read; start from the model's .safetensors "
             "files";
    case FileKind::archive:
      return "is an archive; unpack it and name what is inside";
    case FileKind::text:
      return fmt::format("is text, not weights ({}); download it again", quoted);
  }
  return "";
}

FileKind kind_of_file(const std::filesystem::path& path) {
  const auto start = start_of(path);
  return start ? kind_of_bytes(*start) : FileKind::unknown;
}

std::string explain_file(const std::filesystem::path& path) {
  const auto start = start_of(path);
  return start ? explain_kind(kind_of_bytes(*start), *start) : "";
}

std::string explain_misdownload(const std::filesystem::path& path) {
  const auto start = start_of(path);
  if (!start) return "";
  switch (const FileKind kind = kind_of_bytes(*start)) {
    case FileKind::zeros:
    case FileKind::git_lfs_pointer:
    case FileKind::html:
    case FileKind::xml:
      return explain_kind(kind, *start);
    default:
      return "";
  }
}

bool is_git_lfs_pointer(const std::filesystem::path& path) {
  const auto start = start_of(path);
  return start && kind_of_bytes(*start) == FileKind::git_lfs_pointer;
}

}  // namespace microscale
