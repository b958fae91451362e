#include "checkpoint/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoint/file.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Goes up when lines get another meaning.
constexpr int journal_version = 1;

std::string hexadecimal(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Failure io_failure(const char* verb, const fs::path& path, int error) {
  return {ErrorCode::io,
          fmt::format("cannot {} the journal '{}': {}", verb, path.string(), std::strerror(error))};
}

Failure damaged(const fs::path& path) {
  return {
      ErrorCode::bad_input,
      fmt::format("cannot resume: the journal '{}' is damaged; delete the output folder and start "
                  "again without --resume",
                  path.string())};
}

Json first_line(const Fingerprint& fingerprint) {
  Json json;
  json["journal"] = journal_version;
  Json& of = json["of"] = Json::object();
  for (const auto& [key, value] : fingerprint) of[key] = value;
  return json;
}

fs::path path_of(const fs::path& folder, int rank) {
  return folder / (std::string(journal_name) + (rank == 0 ? "" : fmt::format(".{}", rank)));
}

Fingerprint recorded_in(const Json& line) {
  Fingerprint recorded;
  for (const auto& [key, value] : line.items()) {
    recorded.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return recorded;
}

Result<FinishedFile> read_line(const Json& json, const fs::path& path) {
  const auto text = [&](const char* key) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto size = json.find("size");
  FinishedFile file{text("file"), 0, text("digest"), "", {}};
  if (file.name.empty() || size == json.end() || !size->is_number_unsigned()) return damaged(path);
  file.size = size->get<std::uint64_t>();
  if (const auto hashes = json.find("hashes"); hashes != json.end()) {
    for (const Json& each : *hashes) {
      const auto hash =
          each.is_string() ? tensor_hash_from(each.get_ref<const std::string&>()) : std::nullopt;
      if (!hash) return damaged(path);
      file.hashes.push_back(*hash);
    }
  }
  if (const auto report = json.find("report"); report != json.end()) file.report = report->dump();
  return file;
}

// An open descriptor that this process alone uses.
Result<int> open_alone(const fs::path& path, int flags) {
  const int descriptor =
      ::open(path.c_str(), flags | O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return io_failure("open", path, errno);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  if (error != EWOULDBLOCK) return io_failure("lock", path, error);
  return Failure{
      ErrorCode::io,
      fmt::format("another run is writing to '{}'; wait for it or choose another output folder",
                  path.parent_path().string())};
}

// Hands every finished file to `visit`; the bytes up to the end of the last whole line. A failure
// when the journal is damaged or of another conversion.
Result<std::uint64_t> read_lines(const fs::path& path, const Fingerprint& fingerprint,
                                 const VisitFinished& visit) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t complete = 0;
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    auto json = parse_json(line);
    if (!json || !json.value().is_object()) return damaged(path);
    if (complete == 0) {
      const auto of = json.value().find("of"), version = json.value().find("journal");
      const auto end = json.value().end();
      if (of == end || !of->is_object() || version == end || *version != journal_version) {
        return damaged(path);
      }
      if (const std::string changed = difference(recorded_in(*of), fingerprint); !changed.empty()) {
        return Failure{ErrorCode::invalid_argument,
                       fmt::format("cannot resume in '{}': {}; repeat the input and options of the "
                                   "interrupted run, or start again in another folder",
                                   path.parent_path().string(), changed)};
      }
    } else {
      auto finished = read_line(json.value(), path);
      if (!finished) return finished.failure();
      if (Status visited = visit(std::move(finished.value())); !visited) return visited.failure();
    }
    complete += line.size() + 1;
  }
  if (file.bad()) return io_failure("read", path, EIO);
  return complete;
}

}  // namespace

std::string difference(const Fingerprint& recorded, const Fingerprint& now) {
  const auto found = [](const Fingerprint& in, const std::string& key) {
    return std::find_if(in.begin(), in.end(),
                        [&](const auto& entry) { return entry.first == key; });
  };
  for (const auto& [key, value] : now) {
    const auto it = found(recorded, key);
    const std::string before = it != recorded.end() ? it->second : "absent";
    if (before != value) return fmt::format("{} was {}, now it is {}", key, before, value);
  }
  for (const auto& [key, value] : recorded) {
    if (found(now, key) == now.end()) {
      return fmt::format("{} was {}, now it is absent", key, value);
    }
  }
  return "";
}

std::string digest_of(std::string_view bytes) {
  return hexadecimal(XXH3_128bits(bytes.data(), bytes.size()));
}

Result<std::string> sample_digest(const fs::path& path) {
  constexpr std::uint64_t piece = 64 * 1024, pieces = 32;
  auto file = InputFile::open(path);
  if (!file) return file.failure();
  const std::uint64_t size = file.value().size();
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  XXH3_128bits_update(state.get(), &size, sizeof size);
  std::vector<std::uint8_t> buffer(piece);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t at = size <= piece * pieces ? i * piece : (size - piece) / (pieces - 1) * i;
    if (at >= size) break;
    const auto part = std::span(buffer).first(std::min(piece, size - at));
    if (Status read = file.value().read_at(at, part); !read) return read.failure();
    XXH3_128bits_update(state.get(), part.data(), part.size());
  }
  return hexadecimal(XXH3_128bits_digest(state.get()));
}

bool is_intact(const fs::path& folder, const FinishedFile& file) {
  std::error_code error;
  const fs::path path = folder / file.name;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != file.size || error)
    return false;
  const auto digest = sample_digest(path);
  return digest && digest.value() == file.digest;
}

std::string to_text(const Fingerprint& fingerprint) { return first_line(fingerprint).dump(); }

Fingerprint fingerprint_from(const std::string& text) {
  const auto json = parse_json(text);
  if (!json || !json.value().is_object() || !json.value().contains("of")) return {};
  const Json& of = json.value().at("of");
  return of.is_object() ? recorded_in(of) : Fingerprint();
}

Result<Journal> Journal::start(const fs::path& folder, const Fingerprint& fingerprint, int rank) {
  const fs::path path = path_of(folder, rank);
  const auto descriptor = open_alone(path, O_CREAT | O_EXCL);
  if (!descriptor) return descriptor.failure();
  Journal journal(path, descriptor.value());
  if (Status written = journal.append(to_text(fingerprint)); !written) return written.failure();
  if (Status durable = sync_folder(folder); !durable) return durable.failure();
  return journal;
}

Result<Journal> Journal::resume(const fs::path& folder, const Fingerprint& fingerprint,
                                const VisitFinished& visit) {
  const fs::path path = path_of(folder, 0);
  const auto descriptor = open_alone(path, 0);
  if (!descriptor) return descriptor.failure();
  Journal journal(path, descriptor.value());
  const auto complete = read_lines(path, fingerprint, visit);
  if (!complete) return complete.failure();
  if (::ftruncate(journal.descriptor_, static_cast<off_t>(complete.value())) != 0) {
    return io_failure("repair", path, errno);
  }
  // Killed before the first line was complete: nothing else can have been written yet.
  if (complete.value() == 0) {
    if (Status written = journal.append(to_text(fingerprint)); !written) return written.failure();
  }
  if (Status absorbed = journal.absorb_others(fingerprint, visit); !absorbed) {
    return absorbed.failure();
  }
  return journal;
}

std::optional<Fingerprint> Journal::recorded(const fs::path& folder) {
  std::ifstream file(path_of(folder, 0), std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || file.eof()) return std::nullopt;
  const Fingerprint fingerprint = fingerprint_from(line);
  return fingerprint.empty() ? std::nullopt : std::optional(fingerprint);
}

Status Journal::read(const fs::path& folder, const Fingerprint& fingerprint,
                     const VisitFinished& visit) {
  const auto complete = read_lines(path_of(folder, 0), fingerprint, visit);
  return complete ? success() : Status(complete.failure());
}

Status Journal::absorb_others(const Fingerprint& fingerprint, const VisitFinished& visit) {
  const fs::path folder = path_.parent_path();
  const std::string prefix = std::string(journal_name) + ".";
  std::vector<fs::path> others;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) others.push_back(entry.path());
  }
  if (error) return io_failure("look beside", path_, error.value());
  for (const fs::path& other : others) {
    const auto descriptor = open_alone(other, 0);
    if (!descriptor) return descriptor.failure();
    const Journal closes(other, descriptor.value());
    const auto record_and_visit = [&](FinishedFile file) -> Status {
      if (Status recorded = record(file); !recorded) return recorded;
      return visit(std::move(file));
    };
    const auto complete = read_lines(other, fingerprint, record_and_visit);
    if (!complete) return complete.failure();
    fs::remove(other, error);
    if (error) return io_failure("remove", other, error.value());
  }
  return others.empty() ? success() : sync_folder(folder);
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

Journal& Journal::operator=(Journal&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status Journal::append(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t put = ::write(descriptor_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_failure("write to", path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fdatasync(descriptor_) != 0) return io_failure("write to", path_, errno);
  return success();
}

Status Journal::record(const FinishedFile& file) {
  std::string line = fmt::format(R"({{"file":{},"size":{},"digest":"{}")", Json(file.name).dump(),
                                 file.size, file.digest);
  const char* before = ",\"hashes\":[";
  for (const TensorHash& hash : file.hashes) {
    line += fmt::format("{}\"{}\"", before, to_string(hash));
    before = ",";
  }
  if (!file.hashes.empty()) line += ']';
  if (!file.report.empty()) line += ",\"report\":" + file.report;
  return append(line + '}');
}

Status Journal::remove() {
  std::error_code error;
  fs::remove(path_, error);
  if (error) return io_failure("remove", path_, error.value());
  return sync_folder(path_.parent_path());
}

}  // namespace microscale
