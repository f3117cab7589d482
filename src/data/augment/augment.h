#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/philox.h"
#include "data/image.h"

namespace tandem {

/// The random numbers of one sample in one epoch. They depend on nothing else, so neither the rank
/// count nor the order in which threads decode changes an augmentation.
RandomStream augmentation_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t sample);

/// Ranges of a random-resized crop: its share of the image's area, and its width over height.
struct CropRanges {
  double scale_low = 0.08;
  double scale_high = 1.0;
  double ratio_low = 3.0 / 4.0;
  double ratio_high = 4.0 / 3.0;
};

/// A box of random area and ratio (uniform, uniform in the logarithm) inside height x width; after
/// ten that do not fit, the largest centred one of an allowed ratio. torchvision's
/// RandomResizedCrop.get_params (Szegedy et al., "Going deeper with convolutions", 2015).
PixelRect random_resized_crop(int height, int width, const CropRanges& ranges,
                              RandomStream& random);

/// A size x size window at a random place of an image that has `padding` more pixels on each side.
/// The padded image must be at least size x size.
PixelRect random_crop(int height, int width, int size, int padding, RandomStream& random);

/// The box that random erasing (Zhong et al. 2020) blanks in a size x size image: of an area of 2 %
/// to 33 % of it and a height over width of 0.3 to 3.3, uniform and uniform in the logarithm;
/// without extents where ten draws do not fit. torchvision's RandomErasing.get_params.
PixelRect random_erasing(int size, RandomStream& random);

/// The size x size window in the middle; odd rests are rounded half to even like torchvision's.
PixelRect center_crop(int height, int width, int size);

/// What is wrong with an image whose name is not known where that is found.
class ImageError : public InputError {
 public:
  using InputError::InputError;
};

/// An image's extents after its shorter side is resized to `shorter`; the longer one is rounded
/// down like torchvision's Resize. Throws ImageError where that would be more than 2^30.
PixelRect resized_extents(int height, int width, int shorter);

}  // namespace tandem
