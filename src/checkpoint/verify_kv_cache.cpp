// Scales of the key-value cache: engines multiply by them at every token, and a wrong one spoils
// the attention of its layer without a word.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "checkpoint/verify_model.hpp"
#include "checkpoint/weight_reader.hpp"

namespace microscale {
namespace {

// More elements than any model has heads: not a cache's scale.
constexpr std::uint64_t most_scale_bytes = 64 * 1024;
// An NVFP4 cache's global scale is amax / 2688. Keys beyond 2688 are unheard of, but 2688 / amax,
// the divisor that weights have in compressed-tensors, is above 1 for all of them.
constexpr float largest_global_scale = 1.0f;

// What a tensor is the scale of.
struct CacheScale {
  std::string attention;  // the module whose cache it is: "model.layers.0.self_attn"
  std::string kind;       // what the scales of a pair have in common: "scale", "global_scale"
  char part = '?';        // 'k', 'v' or 'q'; '*' for one scale of both keys and values
};

bool strip(std::string& text, std::string_view ending) {
  if (!text.ends_with(ending)) return false;
  text.resize(text.size() - ending.size());
  return true;
}

std::optional<CacheScale> cache_scale_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  CacheScale scale;
  scale.attention = std::string(name.substr(0, dot));
  const std::string_view leaf = name.substr(dot + 1);
  if (leaf == "kv_scale" || leaf == "kv_cache_scaling_factor") {
    scale.kind = leaf;
    scale.part = '*';
    return scale;
  }
  if (leaf == "output_scale") {
    for (const char part : {'k', 'v'}) {
      if (!strip(scale.attention, fmt::format(".{}_proj", part))) continue;
      scale.kind = leaf;
      scale.part = part;
      return scale;
    }
    return std::nullopt;
  }
  constexpr std::array<std::string_view, 3> kinds{"scale", "global_scale", "cache_scale"};
  for (const char part : {'k', 'v', 'q'}) {
    for (const std::string_view kind : kinds) {
      if (leaf != fmt::format("{}_{}", part, kind)) continue;
      strip(scale.attention, fmt::format(".{}_proj", part));
      scale.kind = kind;
      scale.part = part;
      return scale;
    }
  }
  return std::nullopt;
}

bool holds_numbers(StoredType type) {
  return type == StoredType::f32 || type == StoredType::f16 || type == StoredType::bf16 ||
         type == StoredType::f64;
}

std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c < '0' || c > '9') text += c;
  }
  return text;
}

class CacheCheck {
 public:
  CacheCheck(const ModelFolder& model, const KvCacheScheme* scheme, Findings& findings)
      : model_(model), scheme_(scheme), findings_(findings) {}

  void run() {
    for (const ModelTensor& tensor : model_.tensors) {
      const auto scale = cache_scale_of(tensor.name());
      if (!scale) {
        note_attention(tensor.name());
        continue;
      }
      if (!first_) first_ = &tensor;
      check_value(tensor, *scale);
      pairs_[{scale->attention, scale->kind}][scale->part] = &tensor;
    }
    check_pairs();
    check_scheme();
  }

 private:
  void report(Severity severity, std::string_view rule, const ModelTensor& tensor,
              const std::string& text) {
    findings_.push_back(
        make_finding(severity, rule, model_.shards[tensor.shard].name, tensor.name(), text));
  }

  void note_attention(std::string_view name) {
    const std::size_t at = name.find(".k_proj.weight");
    if (at != std::string_view::npos) attentions_.emplace(name.substr(0, at));
  }

  // One element; or one for each head, where the scheme says so.
  void check_value(const ModelTensor& tensor, const CacheScale& scale) {
    const TensorEntry& entry = *tensor.entry;
    const std::int64_t count =
        std::accumulate(entry.shape.begin(), entry.shape.end(), std::int64_t{1}, std::multiplies());
    const bool per_head = scheme_ && scheme_->per_head;
    if (count != 1 && !(per_head && count > 0 && entry.bytes() <= most_scale_bytes)) {
      report(Severity::error, "kv-scale-shape", tensor,
             fmt::format("a cache's scale has one element, this is {} [{}]; calibrate the cache "
                         "again",
                         to_string(entry.type), fmt::join(entry.shape, ", ")));
      return;
    }
    if (!holds_numbers(entry.type)) {
      report(
          Severity::error, "kv-scale-type", tensor,
          fmt::format("a cache's scale is F32, F16 or BF16, this is {}; calibrate the cache again",
                      to_string(entry.type)));
      return;
    }
    const std::vector<float> values = read_values(tensor, count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] > 0 && std::isfinite(values[i])) continue;
      report(Severity::error, "kv-scale-value", tensor,
             fmt::format("the cache's scale{} is {}, which must be finite and positive; calibrate "
                         "the cache again",
                         values.size() > 1 ? fmt::format(" of head {}", i) : "", values[i]));
      return;
    }
    if (scale.kind == "global_scale" && values[0] > largest_global_scale) {
      report(
          Severity::warning, "kv-scale-reciprocal", tensor,
          fmt::format("the global scale {} stands for magnitudes of {}; a cache's is amax / 2688, "
                      "and this may be its reciprocal",
                      values[0], 2688 * values[0]));
    }
  }

  std::vector<float> read_values(const ModelTensor& tensor, std::int64_t count) const {
    std::vector<std::uint8_t> bytes(tensor.entry->bytes());
    take(model_.shards[tensor.shard].file.read_at(tensor.entry->begin, bytes));
    std::vector<float> values(static_cast<std::size_t>(count));
    decode_dense(tensor.entry->type, bytes, values);
    return values;
  }

  void check_pairs() {
    for (const auto& [key, parts] : pairs_) {
      const bool keys = parts.contains('k'), values = parts.contains('v');
      if (keys == values) continue;
      const ModelTensor& tensor = *parts.at(keys ? 'k' : 'v');
      report(Severity::warning, "kv-scale-alone", tensor,
             fmt::format("the scale of the {} is missing, and loaders take 1 for it; calibrate the "
                         "cache again",
                         keys ? "values" : "keys"));
    }
  }

  void check_scheme() {
    if (!model_.whole_folder) return;  // the scheme may be of other files
    if (first_ && !scheme_) {
      report(Severity::warning, "kv-scales-unused", *first_,
             "scales of a key-value cache are stored, but config.json has no kv_cache_scheme, so "
             "engines do not use them unless they are told to; describe the cache or remove them");
    }
    if (!first_ && scheme_ && scheme_->stored_scales) {
      findings_.push_back(make_finding(
          Severity::warning, "kv-scales-missing", "config.json", "",
          "it describes a key-value cache with stored scales, but the model has none, and loaders "
          "take 1 for them; calibrate the cache or remove the description"));
    }
    if (!first_) return;
    std::set<std::string> scaled, alike;  // attentions with a scale; their names without numbers
    for (const auto& [key, parts] : pairs_) scaled.insert(key.first);
    std::vector<std::string> bare;
    for (const std::string& attention : attentions_) {
      // "...self_attn.attn.k_scale" is of "...self_attn" too.
      const auto next = scaled.lower_bound(attention);
      if (next != scaled.end() && next->starts_with(attention)) {
        alike.insert(without_numbers(attention));
      } else {
        bare.push_back(attention);
      }
    }
    // A tower without a cache has none anywhere.
    std::erase_if(bare, [&](const auto& name) { return !alike.contains(without_numbers(name)); });
    if (bare.empty()) return;
    findings_.push_back(make_finding(
        Severity::warning, "kv-scales-missing", "", bare.front(),
        fmt::format("its cache has no scale although others have{}; loaders take 1 for it, so "
                    "calibrate the cache again",
                    bare.size() > 1 ? fmt::format(" ({} more like it)", bare.size() - 1) : "")));
  }

  const ModelFolder& model_;
  const KvCacheScheme* scheme_;
  Findings& findings_;
  const ModelTensor* first_ = nullptr;
  std::map<std::pair<std::string, std::string>, std::map<char, const ModelTensor*>> pairs_;
  std::set<std::string> attentions_;
};

}  // namespace

void verify_kv_cache(const ModelFolder& model, const QuantizationConfig* config,
                     Findings& findings) {
  const KvCacheScheme* scheme = config && config->kv_cache ? &*config->kv_cache : nullptr;
  CacheCheck(model, scheme, findings).run();
}

}  // namespace microscale
