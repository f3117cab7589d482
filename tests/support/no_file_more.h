#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tandem {

/// While it lives this process can open no file, and so no folder.
class NoFileMore {
 public:
  NoFileMore() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFileMore() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoFileMore(const NoFileMore&) = delete;
  NoFileMore& operator=(const NoFileMore&) = delete;

 private:
  rlimit before_{};
};

}  // namespace tandem
