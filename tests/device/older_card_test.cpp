#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "device/cuda_context.h"

namespace tandem {
namespace {

/// A library that is not found is not preloaded, with a warning alone.
TEST(OlderCard, IsTheOneThatAContextSees) {
  const char* const named = std::getenv("TANDEM_OLDER_CARD");
  if (named == nullptr) GTEST_SKIP() << "no older card is made up (older_card.cpp)";
  const CudaContext context(0);
  EXPECT_EQ(context.device().capability, named == std::string("A100") ? 80 : 86);
}

}  // namespace
}  // namespace tandem
