// A cache of caches.hpp in a device's memory, and its view there.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "device_bytes.hpp"
#include "support/caches.hpp"

namespace microscale::test {

/// Never empty, so that it can be allocated.
template <class T>
std::vector<std::uint8_t> device_bytes(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
  std::vector<std::uint8_t> bytes(first, first + values.size() * sizeof(T));
  if (bytes.empty()) bytes.resize(16);
  return bytes;
}

/// What `host` holds when it is made. `table` in place of its own, if it is not empty.
class DeviceCache {
 public:
  DeviceCache(cuda::Device& gpu, const OwnedCache& host,
              const std::vector<std::int32_t>& table = {})
      : memory_(gpu, device_bytes(host.memory)),
        k_codes_(gpu, device_bytes(host.k_codes)),
        k_scales_(gpu, device_bytes(host.k_scales)),
        v_codes_(gpu, device_bytes(host.v_codes)),
        v_scales_(gpu, device_bytes(host.v_scales)),
        first_k_(gpu, device_bytes(host.first_k)),
        first_v_(gpu, device_bytes(host.first_v)),
        recent_k_(gpu, device_bytes(host.recent_k)),
        recent_v_(gpu, device_bytes(host.recent_v)),
        table_(gpu, device_bytes(table.empty() ? host.table : table)),
        lengths_(gpu, device_bytes(host.lengths)),
        mean_(gpu, device_bytes(host.mean)),
        globals_(gpu, device_bytes(std::vector<float>{host.view.k_global_scale.value(),
                                                      host.view.v_global_scale.value()})),
        view_(host.view) {
    for (KvPart* part : {&view_.k_codes, &view_.k_scales, &view_.v_codes, &view_.v_scales})
      move(*part, host);
    if (view_.page_table) view_.page_table = reinterpret_cast<std::int32_t*>(table_.data());
    view_.lengths = reinterpret_cast<std::int32_t*>(lengths_.data());
    const auto* globals = reinterpret_cast<const float*>(globals_.data());
    view_.k_global_scale = GlobalScale::on_device(globals);
    view_.v_global_scale = GlobalScale::on_device(globals + 1);
    view_.memory = Memory::device;
    if (view_.k_mean) view_.k_mean = reinterpret_cast<float*>(mean_.data());
    const auto copies = [](std::uint16_t*& from, const cuda::DeviceBytes& there) {
      if (from) from = reinterpret_cast<std::uint16_t*>(there.data());
    };
    copies(view_.first.k, first_k_), copies(view_.first.v, first_v_);
    copies(view_.recent.k, recent_k_), copies(view_.recent.v, recent_v_);
  }

  const KvCache& view() const { return view_; }

  /// Everything that an append may write, one after the other.
  std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> all;
    for (const cuda::DeviceBytes* part : {&memory_, &k_codes_, &k_scales_, &v_codes_, &v_scales_,
                                          &first_k_, &first_v_, &recent_k_, &recent_v_}) {
      const std::vector<std::uint8_t> bytes = part->to_host();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  /// The same of a cache on the host.
  static std::vector<std::uint8_t> bytes_of(const OwnedCache& host) {
    std::vector<std::uint8_t> all;
    const auto add = [&](const auto& part) {
      const std::vector<std::uint8_t> bytes = device_bytes(part);
      all.insert(all.end(), bytes.begin(), bytes.end());
    };
    add(host.memory), add(host.k_codes), add(host.k_scales), add(host.v_codes), add(host.v_scales);
    add(host.first_k), add(host.first_v), add(host.recent_k), add(host.recent_v);
    return all;
  }

 private:
  void move(KvPart& part, const OwnedCache& host) const {
    const std::array<std::pair<const std::vector<std::uint8_t>*, const cuda::DeviceBytes*>, 5>
        homes{{{&host.memory, &memory_},
               {&host.k_codes, &k_codes_},
               {&host.k_scales, &k_scales_},
               {&host.v_codes, &v_codes_},
               {&host.v_scales, &v_scales_}}};
    for (const auto& [at, there] : homes)
      if (!at->empty() && part.data >= at->data() && part.data < at->data() + at->size()) {
        part.data = there->data() + (part.data - at->data());
        return;
      }
  }

  const cuda::DeviceBytes memory_, k_codes_, k_scales_, v_codes_, v_scales_, first_k_, first_v_,
      recent_k_, recent_v_, table_, lengths_, mean_, globals_;
  KvCache view_;
};

}  // namespace microscale::test
