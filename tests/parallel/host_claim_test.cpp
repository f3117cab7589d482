#include "parallel/host_claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "support/scoped_variable.h"

namespace tandem {
namespace {

/// What a process of its own, which has ended then, has to say.
bool another(const std::function<bool()>& asks) {
  const pid_t process = ::fork();
  if (process == 0) ::_exit(asks() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool another_claims(const std::string& job, const std::string& what) {
  return another([&] { return claims_on_host(job, what, false); });
}

TEST(HostClaim, IsTheFirstProcesssUntilItEnds) {
  const std::string job = "test-" + std::to_string(::getpid());
  EXPECT_TRUE(another_claims(job, "speech"));
  EXPECT_TRUE(claims_on_host(job, "speech", false));
  EXPECT_FALSE(another_claims(job, "speech"));
  EXPECT_FALSE(claims_on_host(job, "speech", true));
  EXPECT_TRUE(another_claims(job, "song"));
  EXPECT_TRUE(another_claims(job + "-2", "speech"));
}

TEST(HostClaim, IsOfTheJobThatPmixNames) {
  const ScopedVariable variable("PMIX_NAMESPACE", "4711");
  EXPECT_EQ(pmix_job(), "4711");
  const ScopedVariable none("PMIX_NAMESPACE", nullptr);
  EXPECT_EQ(pmix_job(), "");
}

}  // namespace
}  // namespace tandem
