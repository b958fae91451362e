#include "checkpoint/source_order.hpp"

#include <gtest/gtest.h>

#include "checkpoint/small_model.hpp"

namespace microscale {
namespace {

constexpr std::int64_t size = 64;

// What is said of a weight 64 x 64 whose element (row, col) is the original's at `from(row, col)`.
template <class From>
std::string answer(From&& from) {
  const std::vector<float> values = testing::gaussian(size * size, 3);
  std::vector<float> moved(values.size());
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t col = 0; col < size; ++col) {
      moved[static_cast<std::size_t>(row * size + col)] =
          values[static_cast<std::size_t>(from(row, col))];
    }
  }
  testing::TemporaryFolder folder;
  testing::SmallModel model, source;
  model.add_quantized("a", Format::mxfp4, size, size, moved);
  source.add_floats("a.weight", {size, size}, values);
  model.write(folder / "out");
  source.write(folder / "in");
  const QuantizedFolder stored = take(open_quantized_folder(folder / "out"));
  QuantizedFolder original = take(open_quantized_folder(folder / "in"));
  const DenseView view = dense_view_of(original);
  MatrixSlice slice;
  slice.module = "a";
  slice.rows = slice.cols = slice.row_step = size;
  return order_against(stored, stored.tensors.front(), view.tensors.front(), slice);
}

TEST(SourceOrder, names_rows_that_moved) {
  EXPECT_EQ(answer([](auto row, auto col) { return (row + 5) % size * size + col; }),
            "its rows are in another order: row 0 is row 5 of the original");
}

TEST(SourceOrder, names_a_transpose) {
  EXPECT_EQ(answer([](auto row, auto col) { return col * size + row; }),
            "it is the original transposed");
}

TEST(SourceOrder, says_nothing_of_what_it_does_not_know) {
  EXPECT_EQ(answer([](auto row, auto col) { return row * size + col; }), "");
  EXPECT_EQ(answer([](auto row, auto col) { return (row * 37 + col * 11) % (size * size); }), "");
}

}  // namespace
}  // namespace microscale
