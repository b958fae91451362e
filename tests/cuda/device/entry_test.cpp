// Handles of entry points: found by the parts of their names, launched with their own arguments
// only.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "cuda/append_kv/args.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/quantize/args.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

constexpr Launch one_block{
    .grid_x = 1, .grid_y = 1, .grid_z = 1, .threads = 256, .column_shift = 0};

template <class Handle, class Args>
concept Launches = requires(Device& device, const Handle& handle, const Args& args) {
  launch(device, handle, "test", one_block, args, nullptr);
};
static_assert(Launches<Entry<RepackArgs>, RepackArgs>);
static_assert(!Launches<Entry<RepackArgs>, AbsMaxArgs>);
static_assert(!Launches<Entry<append::Args>, RepackArgs>);
static_assert(!Launches<std::string, RepackArgs>);

TEST(EntryFamily, finds_an_entry_by_the_parts_of_its_name) {
  const Entry<QuantizeArgs> entry = kernels::quantize("mxfp4", "bf16", "plain", "tiled");
  ASSERT_TRUE(entry);
  EXPECT_EQ(std::string_view(entry.name), "quantize_mxfp4_bf16_plain_tiled");
  EXPECT_EQ(entry_names[static_cast<std::size_t>(entry.id)], std::string_view(entry.name));
  EXPECT_EQ(std::string_view(kernels::attention_decode("nvfp4", 128, 8, "part").name),
            "attention_decode_nvfp4_128_8_part");
  EXPECT_EQ(
      std::string_view(kernels::matmul_in_registers("mxfp4", "bf16", EntryTile{256, 64}).name),
      "matmul_in_registers_mxfp4_bf16_256x64");
  EXPECT_TRUE(kernels::global_scale());
}

TEST(EntryFamily, has_nothing_of_another_family_or_of_no_name) {
  EXPECT_FALSE(kernels::quantize("mxfp4", "bf16", "plain"));
  EXPECT_FALSE(kernels::quantize("columns", "mxfp4", "bf16", "plain"));
  EXPECT_FALSE(kernels::repack("to_rows", ""));
  EXPECT_FALSE(kernels::repack());
  EXPECT_FALSE(Entry<RepackArgs>{});
}

TEST(EntryFamily, every_entry_is_found_in_its_own_family_only) {
  EXPECT_EQ(std::set<std::string_view>(entry_names.begin(), entry_names.end()).size(),
            entry_names.size());
  for (std::size_t id = 0; id < entry_names.size(); ++id) {
    EXPECT_LE(entry_names[id].size(), EntryName::longest);
    const auto of = static_cast<std::int32_t>(id),
               all = static_cast<std::int32_t>(entry_names.size());
    EXPECT_EQ(find_entry(of, 1, entry_names[id]), of);
    EXPECT_EQ(find_entry(of, 0, entry_names[id]), -1);
    EXPECT_EQ(find_entry(0, of, entry_names[id]), -1) << entry_names[id];
    EXPECT_EQ(find_entry(of + 1, all - of - 1, entry_names[id]), -1) << entry_names[id];
  }
}

TEST(EntryFamily, the_table_names_what_the_images_define) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  std::set<std::string> defined;
  for (const char* architecture : {"sm_90a", "sm_100f", "sm_120f"})
    for (const std::string& name : kernel_names(architecture)) defined.insert(name);
  EXPECT_EQ(defined, std::set<std::string>(entry_names.begin(), entry_names.end()));
}

TEST(EntryName, keeps_what_fits) {
  EntryName name("a");
  name.add(-12);
  name.add(EntryTile{1, 2});
  EXPECT_EQ(std::string_view(name), "a_-12_1x2");
  name.add(std::string(200, 'x'));
  EXPECT_EQ(std::string_view(name).size(), EntryName::longest);
}

TEST(LaunchEntry, refuses_a_missing_combination_by_its_name) {
  test::FakeDevice device(9, 0);
  test::expect_error(ErrorCode::unsupported, "repack_to_nothing on sm_90a", [&] {
    launch(device, kernels::repack("to_nothing"), "repack", one_block, RepackArgs{}, nullptr);
  });
}

TEST(LaunchEntry, asks_the_device_for_a_kernel_once) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  test::FakeDevice device(9, 0), other(12, 0);
  for (test::FakeDevice* each : {&device, &other, &device, &device})
    launch(*each, kernels::repack("to_rows"), "repack", one_block, RepackArgs{}, nullptr);
  EXPECT_EQ(device.launches.size(), 3u);
  EXPECT_EQ(device.launches.back().name, "repack_to_rows");
  EXPECT_EQ(device.found, 1);
  EXPECT_EQ(other.found, 1);
}

}  // namespace
}  // namespace microscale::cuda
