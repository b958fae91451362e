#include "checkpoint/containers/sentencepiece.hpp"

#include <gtest/gtest.h>

#include "checkpoint/containers/sentencepiece_builder.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;

TEST(SentencePiece, pieces_have_text_score_and_type) {
  const std::string file = sentencepiece_file(
      {{"<unk>", 0, PieceType::unknown}, {"\xE2\x96\x81", -1.5f}, {"<0x0A>", 0, PieceType::byte}});
  const auto model = parse_sentencepiece(file);
  ASSERT_TRUE(succeeds(model));
  EXPECT_EQ(model.value().pieces,
            (std::vector<TokenPiece>{{"<unk>", 0, PieceType::unknown},
                                     {"\xE2\x96\x81", -1.5f, PieceType::normal},
                                     {"<0x0A>", 0, PieceType::byte}}));
  EXPECT_TRUE(model.value().add_dummy_prefix);
  EXPECT_FALSE(parse_sentencepiece(file + sentencepiece_without_prefix()).value().add_dummy_prefix);
}

TEST(SentencePiece, fields_that_are_not_known_are_passed_over) {
  // A trainer's settings (field 2), a fixed number of 64 bits and one of 32.
  const std::string more =
      std::string("\x12\x02\x08\x01", 4) + "\x51" + "12345678" + "\x5D" + "1234";
  EXPECT_TRUE(succeeds(parse_sentencepiece(sentencepiece_file({{"a", 1}}) + more)));
}

TEST(SentencePiece, what_is_none_is_refused) {
  const std::string file = sentencepiece_file({{"abc", -1}, {"de", -2}});
  for (const std::string& bytes :
       {std::string(), file.substr(0, file.size() - 1), std::string("{\"a\": 1}"),
        std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12),
        std::string("\x0A\x02\x18\x09", 4), std::string("\x0F\x01", 2)})
    EXPECT_TRUE(fails_with(parse_sentencepiece(bytes), "is no SentencePiece model"));
}

}  // namespace
}  // namespace microscale
