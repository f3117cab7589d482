#include "data/fingerprint.h"

#include "base/hash.h"

namespace tandem {
namespace {

/// Mixed once more at its end, so that "ab", "c" and "a", "bc" are not the same.
std::uint64_t add(std::uint64_t hash, std::string_view name) {
  return mix64(hash_text(name, hash));
}

}  // namespace

std::uint64_t fingerprint_of_classes(const Dataset& dataset) {
  std::uint64_t hash = hash_text("");
  for (const std::string& name : dataset.class_names()) hash = add(hash, name);
  return hash;
}

DataFingerprint fingerprint_of(const Dataset& dataset) {
  DataFingerprint print;
  print.classes = fingerprint_of_classes(dataset);
  print.labels = print.classes;
  std::uint64_t names = hash_text("");
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    print.labels = mix64(print.labels + static_cast<std::uint64_t>(dataset.label(i)) + 1);
    names = add(names, dataset.sample_name(i));
  }
  print.samples = mix64(print.labels ^ names);
  return print;
}

}  // namespace tandem
