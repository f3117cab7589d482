#include "train/checkpoints/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "train/checkpoints/safetensors_dtypes.h"

namespace tandem {
namespace {

using nlohmann::json;

/// The reference implementation's own limit.
constexpr std::uint64_t max_header_bytes = 100'000'000;
/// The header's object, a tensor's object, its arrays.
constexpr std::size_t max_depth = 3;

struct Placed {
  NamedTensor tensor;
  std::uint64_t begin;
  std::uint64_t end;
};

/// One file's checks; holds what the messages name.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, const std::filesystem::path& path)
      : file_(file), path_(path) {}

  SafetensorsHeader read() {
    const std::string_view text = header_text();
    const json header = parse(text);
    data_ = file_.subspan(8 + text.size());
    SafetensorsHeader result;
    std::vector<Placed> placed;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        result.metadata = metadata(value);
      } else {
        placed.push_back(tensor(name, value));
      }
    }
    check_cover(placed);
    for (Placed& each : placed) result.tensors.push_back(std::move(each.tensor));
    return result;
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    input_error("'{}' is no sound safetensors file: {}; use another copy or write it anew",
                path_.string(), fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view header_text() const {
    if (file_.size() < 8)
      fail("it has {} bytes, fewer than the header's length takes", file_.size());
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), 8);
    if (length > max_header_bytes) {
      fail("its header would have {} bytes, more than allowed (it may be a file of another kind)",
           length);
    }
    if (length > file_.size() - 8) {
      fail("its header should have {} bytes, but the file ends after {} (it may be cut short)",
           length, file_.size() - 8);
    }
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + 8,
                                static_cast<std::size_t>(length));
    if (!text.starts_with('{')) fail("its header does not begin with '{{'");
    return text;
  }

  /// JSON with the two things that the parser lets pass refused: doubled keys and deep nesting.
  json parse(std::string_view text) const {
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int, json::parse_event_t event, json& value) {
      switch (event) {
        case json::parse_event_t::object_start:
        case json::parse_event_t::array_start:
          keys.emplace_back();
          if (keys.size() > max_depth) fail("its header nests too deep");
          break;
        case json::parse_event_t::object_end:
        case json::parse_event_t::array_end:
          keys.pop_back();
          break;
        case json::parse_event_t::key:
          if (!keys.back().insert(value.get<std::string>()).second) {
            fail("the header has '{}' twice", value.get<std::string>());
          }
          break;
        case json::parse_event_t::value:
          break;
      }
      return true;
    };
    try {
      return json::parse(text, watch);
    } catch (const json::parse_error& error) {
      fail("its header is not JSON (near byte {} of the header)", error.byte);
    } catch (const json::out_of_range&) {
      fail("its header has a number that is out of range");
    }
  }

  SafetensorsMetadata metadata(const json& value) const {
    if (!value.is_object()) fail("__metadata__ is no object");
    SafetensorsMetadata result;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail("__metadata__ '{}' is no text", key);
      result[key] = text.get<std::string>();
    }
    return result;
  }

  std::vector<std::uint64_t> numbers(const std::string& name, const json& entry,
                                     const char* key) const {
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_array()) fail("tensor '{}' has no {} list", name, key);
    std::vector<std::uint64_t> result;
    for (const json& number : *found) {
      if (!number.is_number_unsigned()) {
        fail("tensor '{}': {} holds something else than whole numbers", name, key);
      }
      result.push_back(number.get<std::uint64_t>());
    }
    return result;
  }

  DType dtype(const std::string& name, const json& entry) const {
    const auto found = entry.find("dtype");
    if (found == entry.end() || !found->is_string()) fail("tensor '{}' has no dtype", name);
    const auto& text = found->get_ref<const std::string&>();
    const auto known = safetensors_dtype(text);
    if (!known) {
      input_error(
          "'{}': tensor '{}' has dtype '{}'; Tandem reads F32, F16, BF16, U8, I32 and I64: convert "
          "it before",
          path_.string(), name, text);
    }
    return *known;
  }

  Shape shape(const std::string& name, const json& entry) const {
    const auto extents = numbers(name, entry, "shape");
    if (extents.size() > Shape::max_rank) {
      input_error("'{}': tensor '{}' has {} dimensions; Tandem reads at most {}: reshape it before",
                  path_.string(), name, extents.size(), Shape::max_rank);
    }
    std::vector<std::int64_t> checked;
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : extents) {
      // The element's size is at most 8 bytes, so this bound keeps the byte count below 2^63 too.
      if (__builtin_mul_overflow(elements, extent, &elements) || elements > (UINT64_MAX >> 4) ||
          extent > INT64_MAX) {
        fail("the shape of tensor '{}' overflows", name);
      }
      checked.push_back(static_cast<std::int64_t>(extent));
    }
    return Shape(checked);
  }

  Placed tensor(const std::string& name, const json& entry) const {
    if (name.empty()) fail("a tensor has no name");
    if (!entry.is_object()) fail("tensor '{}' is described by something else than an object", name);
    if (entry.size() != 3) fail("tensor '{}' has keys besides dtype, shape and data_offsets", name);
    NamedTensor result{name, dtype(name, entry), shape(name, entry), nullptr};
    const auto offsets = numbers(name, entry, "data_offsets");
    if (offsets.size() != 2) fail("tensor '{}' has {} data_offsets, not 2", name, offsets.size());
    const std::uint64_t begin = offsets[0];
    const std::uint64_t end = offsets[1];
    if (begin > end || end > data_.size()) {
      fail("tensor '{}' lies at bytes {} to {}, but there are {} bytes of data", name, begin, end,
           data_.size());
    }
    if (end - begin != result.bytes()) {
      fail("tensor '{}' ({} {}) takes {} bytes, but its data_offsets span {}", name,
           result.shape.text(), name_of(result.dtype), result.bytes(), end - begin);
    }
    result.data = data_.data() + begin;
    return {std::move(result), begin, end};
  }

  /// Sorts by place; every byte of the data must belong to exactly one tensor.
  void check_cover(std::vector<Placed>& placed) const {
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
    });
    std::uint64_t covered = 0;
    for (const Placed& each : placed) {
      if (each.begin != covered) {
        fail("tensor '{}' begins at byte {} of the data where {} {}", each.tensor.name, each.begin,
             covered, each.begin < covered ? "is taken already" : "would be next");
      }
      covered = each.end;
    }
    if (covered != data_.size()) {
      fail("its tensors take {} bytes, but there are {} bytes of data", covered, data_.size());
    }
  }

  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  const std::filesystem::path& path_;
};

}  // namespace

SafetensorsHeader read_safetensors_header(std::span<const std::byte> file,
                                          const std::filesystem::path& path) {
  return HeaderReader(file, path).read();
}

}  // namespace tandem
