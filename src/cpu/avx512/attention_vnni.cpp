// Products of attention in integers with AVX-512 VNNI.
#include "cpu/avx512/attention_products.hpp"
#include "cpu/avx512/vector.hpp"

MICROSCALE_VNNI_BEGIN
using namespace microscale::avx512;

inline Int add_dot16(Int sum, Int a, Int b) { return _mm512_dpwssd_epi32(sum, a, b); }

#include "cpu/avx512/attention_integers.hpp"
MICROSCALE_VNNI_END

namespace microscale {
const avx512::AttentionProducts vnni_products = vnni::attention_products;
}
