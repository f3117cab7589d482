#include "train/record/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

namespace tandem {
namespace {

/// What `answer` gives in a forked child, whose environment and descriptors it may change.
int in_child(const std::function<int()>& answer) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(answer());
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// Opens a pseudo-terminal of `columns` columns; the master stays open until the process ends.
int open_terminal(unsigned short columns) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  if (::ioctl(master, TIOCSWINSZ, &size) != 0) return -1;
  return ::open(::ptsname(master), O_RDWR | O_NOCTTY);
}

void become_terminal(int descriptor, unsigned short columns) {
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  ::unsetenv("COLUMNS");
  if (::dup2(open_terminal(columns), descriptor) != descriptor) ::_exit(99);
}

void become_file(int descriptor) {
  if (::dup2(::open("/dev/null", O_WRONLY), descriptor) != descriptor) ::_exit(99);
}

TEST(Terminal, ATerminalIsLiveAndTellsItsWidth) {
  EXPECT_EQ(in_child([] {
              become_terminal(2, 57);
              return is_live_terminal() ? terminal_width() : 0;
            }),
            57);
  EXPECT_EQ(in_child([] {
              become_terminal(1, 41);
              return is_live_terminal(1) ? terminal_width(1) : 0;
            }),
            41);
}

TEST(Terminal, FilesAndDumbTerminalsAreNotLive) {
  EXPECT_EQ(in_child([] {
              become_terminal(2, 57);
              become_file(2);
              return is_live_terminal() ? 1 : 0;
            }),
            0);
  EXPECT_EQ(in_child([] {
              become_terminal(2, 57);
              ::setenv("TERM", "dumb", 1);
              return is_live_terminal() ? 1 : 0;
            }),
            0);
  EXPECT_EQ(in_child([] {
              become_terminal(2, 57);
              ::unsetenv("TERM");
              return is_live_terminal() ? 1 : 0;
            }),
            0);
}

TEST(Terminal, UnderOpenMpiTheParentDecides) {
  // The parent writes to a file while the rank has a terminal, and the other way round.
  EXPECT_EQ(in_child([] {
              become_terminal(2, 57);
              ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
              become_file(2);
              return in_child([] {
                if (::dup2(open_terminal(33), 2) != 2) return 99;
                return is_live_terminal() ? 1 : 0;
              });
            }),
            0);
  EXPECT_EQ(in_child([] {
              become_terminal(2, 57);
              ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
              return in_child([] {
                become_file(2);
                return is_live_terminal() ? terminal_width() : 0;
              });
            }),
            57);
}

TEST(Terminal, WidthFallsBackToColumnsAndEighty) {
  const auto width_with = [](const char* columns) {
    return in_child([&] {
      become_terminal(2, 0);  // A terminal that does not know its size.
      if (columns != nullptr) ::setenv("COLUMNS", columns, 1);
      return terminal_width();
    });
  };
  EXPECT_EQ(width_with("66"), 66);
  EXPECT_EQ(width_with(nullptr), 80);
  EXPECT_EQ(width_with("wide"), 80);
  EXPECT_EQ(width_with("-5"), 80);
  EXPECT_EQ(width_with("66x"), 80);
}

}  // namespace
}  // namespace tandem
