#include "device/tune_setting.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/message.h"
#include "support/scoped_variable.h"

namespace tandem {
namespace {

TEST(TuneSetting, IsWhatTheEnvironmentSays) {
  for (const char* setting : {"", "off", "own", "borrow"}) {
    const ScopedVariable tune("TANDEM_TUNE", setting);
    EXPECT_EQ(tune_setting(), setting);
  }
  const ScopedVariable tune("TANDEM_TUNE", nullptr);
  EXPECT_EQ(tune_setting(), "");
}

TEST(TuneSetting, OfAnotherWordIsRefused) {
  const ScopedVariable tune("TANDEM_TUNE", "Off");
  const std::string message = message_of<InputError>([] { (void)tune_setting(); });
  EXPECT_NE(message.find("TANDEM_TUNE='Off'"), std::string::npos) << message;
}

}  // namespace
}  // namespace tandem
