#include "checkpoint/file_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "report/utf8.hpp"

namespace microscale {

namespace fs = std::filesystem;

Status check_file_names(const ModelFolder& model, std::string_view operation) {
  std::vector<fs::path> names = model.other_files;
  for (const LeftOutFile& file : model.left_out_files) names.push_back(file.path);
  for (const auto* files : {&model.shards, &model.strays}) {
    for (const ModelShard& file : *files) names.emplace_back(file.name);
  }
  names.emplace_back(model.index_name);
  const auto bad = std::find_if(names.begin(), names.end(),
                                [](const fs::path& name) { return !is_utf8(name.string()); });
  if (bad == names.end()) return success();
  return Failure{ErrorCode::bad_input,
                 fmt::format("{}: the name of '{}' in '{}' is no UTF-8 text, so no index, manifest "
                             "or report can name it; rename the file, or move it elsewhere",
                             operation, bad->string(), model.root.string())};
}

}  // namespace microscale
