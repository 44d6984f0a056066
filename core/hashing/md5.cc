#include "core/hashing/md5.h"

#include <bit>
#include <utility>

#include "core/hashing/little_endian.h"

namespace warmring {
namespace {

constexpr size_t kBlockBytes = 64;
constexpr size_t kLengthBytes = 8;

// RFC 1321, section 3.4: floor(2^32 * |sin(i + 1)|).
constexpr std::array<uint32_t, 64> kSines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
constexpr std::array<std::array<int, 4>, 4> kTurns = {
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

using State = std::array<uint32_t, 4>;

// One of the four rounds. Its steps are written out by the compiler, so that each sine, turn and
// word is a constant: more than twice as fast as one loop over all.
template <size_t kRound, size_t... kSteps>
void AddRound(const std::array<uint32_t, 16>& words, State& state, std::index_sequence<kSteps...>) {
  static constexpr size_t kStride[] = {1, 5, 3, 7};
  static constexpr size_t kFirst[] = {0, 1, 5, 0};
  auto [a, b, c, d] = state;
  const auto step = [&](size_t i) {
    uint32_t mix = 0;
    if constexpr (kRound == 0) {
      mix = d ^ (b & (c ^ d));
    } else if constexpr (kRound == 1) {
      mix = c ^ (d & (b ^ c));
    } else if constexpr (kRound == 2) {
      mix = b ^ c ^ d;
    } else {
      mix = c ^ (b | ~d);
    }
    const uint32_t word = words[(kStride[kRound] * i + kFirst[kRound]) % 16];
    const uint32_t next =
        b + std::rotl(a + mix + kSines[16 * kRound + i] + word, kTurns[kRound][i % 4]);
    a = d;
    d = c;
    c = b;
    b = next;
  };
  (step(kSteps), ...);
  state = {a, b, c, d};
}

void AddBlock(const char* block, State& state) {
  std::array<uint32_t, 16> words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = LoadLittleEndian<uint32_t>(block + 4 * i);
  State next = state;
  const auto steps = std::make_index_sequence<16>();
  AddRound<0>(words, next, steps);
  AddRound<1>(words, next, steps);
  AddRound<2>(words, next, steps);
  AddRound<3>(words, next, steps);
  for (size_t i = 0; i < state.size(); ++i) state[i] += next[i];
}

}  // namespace

std::array<uint8_t, 16> Md5(std::string_view bytes) {
  State state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::string_view rest = bytes;
  for (; rest.size() >= kBlockBytes; rest.remove_prefix(kBlockBytes)) AddBlock(rest.data(), state);
  // The rest, a one bit, zeros, and the length in bits: one block, or two when it does not fit.
  std::array<char, 2 * kBlockBytes> tail = {};
  rest.copy(tail.data(), rest.size());
  tail[rest.size()] = static_cast<char>(0x80);
  const size_t tail_bytes =
      rest.size() + 1 + kLengthBytes <= kBlockBytes ? kBlockBytes : 2 * kBlockBytes;
  StoreLittleEndian(uint64_t{bytes.size()} * 8, tail.data() + tail_bytes - kLengthBytes);
  for (size_t at = 0; at < tail_bytes; at += kBlockBytes) AddBlock(tail.data() + at, state);

  std::array<char, 16> digest;
  for (size_t i = 0; i < state.size(); ++i) StoreLittleEndian(state[i], digest.data() + 4 * i);
  return std::bit_cast<std::array<uint8_t, 16>>(digest);
}

}  // namespace warmring
