// RandAugment's operations beside what torchvision made of the same picture
// (tools/make_augment_references.py).
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "data/augment/rand_augment.h"
#include "data/support.h"
#include "train/checkpoints/safetensors.h"

namespace tandem::testing {
namespace {

const std::map<std::string, AugmentOp>& names() {
  using enum AugmentOp;
  static const std::map<std::string, AugmentOp> all{{"Identity", identity},
                                                    {"ShearX", shear_x},
                                                    {"ShearY", shear_y},
                                                    {"TranslateX", translate_x},
                                                    {"TranslateY", translate_y},
                                                    {"Rotate", rotate},
                                                    {"Brightness", brightness},
                                                    {"Color", color},
                                                    {"Contrast", contrast},
                                                    {"Sharpness", sharpness},
                                                    {"Posterize", posterize},
                                                    {"Solarize", solarize},
                                                    {"AutoContrast", autocontrast},
                                                    {"Equalize", equalize}};
  return all;
}

const SafetensorsFile& references() {
  static const SafetensorsFile file(std::string(TANDEM_REFERENCES) +
                                    "/torchvision_rand_augment.safetensors");
  return file;
}

Image image_of(const NamedTensor& tensor) {
  Image image{static_cast<int>(tensor.shape[0]), static_cast<int>(tensor.shape[1]),
              static_cast<int>(tensor.shape[2]), Bytes(tensor.bytes())};
  std::memcpy(image.pixels.data(), tensor.data, tensor.bytes());
  return image;
}

TEST(TorchvisionRandAugment, MagnitudesAreItsOwn) {
  const Image image = image_of(references().at("rgb"));
  int tables = 0;
  for (const auto& [name, op] : names()) {
    const auto found = references().metadata().find(name);
    if (found == references().metadata().end()) continue;
    std::istringstream texts(found->second);
    std::string text;
    int bin = 0;
    for (; texts >> text; ++bin) {
      const double wanted = std::strtod(text.c_str(), nullptr);
      EXPECT_EQ(augment_magnitude(op, bin, image.height, image.width), wanted)
          << name << " " << bin;
    }
    EXPECT_EQ(bin, 31);
    ++tables;
  }
  EXPECT_EQ(tables, 11);
}

TEST(TorchvisionRandAugment, PicturesAreItsOwn) {
  int compared = 0;
  std::map<AugmentOp, int> seen;
  for (const NamedTensor& tensor : references().tensors()) {
    std::istringstream parts(tensor.name);
    std::string source, op, bin, sign;
    std::getline(parts, source, '/');
    if (!std::getline(parts, op, '/')) continue;
    std::getline(parts, bin, '/');
    std::getline(parts, sign, '/');
    Image image = image_of(references().at(source));
    DrawnOp drawn{names().at(op), 0.0};
    drawn.magnitude =
        augment_magnitude(drawn.op, std::atoi(bin.c_str()), image.height, image.width) *
        (sign == "-" ? -1.0 : 1.0);
    Image scratch;
    apply_augment_op(drawn, image, scratch);
    const Image wanted = image_of(tensor);
    int different = 0;
    for (std::size_t i = 0; i < wanted.pixels.size(); ++i) {
      different += image.pixels.at(i) != wanted.pixels[i] ? 1 : 0;
    }
    EXPECT_EQ(different, 0) << tensor.name;
    ++seen[drawn.op];
    ++compared;
  }
  EXPECT_EQ(seen.size(), 14U);
  EXPECT_EQ(compared, 2 * (9 * 2 * 4 + 2 * 4 + 3));
}

}  // namespace
}  // namespace tandem::testing
