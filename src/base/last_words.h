#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tandem {

// An error that a process does not survive, as that its device hangs or that other ranks are gone,
// may never reach main(): what it takes down on its way waits for the device, or for a thread that
// waits for a disk. So whoever raises one leaves its message here too, and where main() is not
// reached soon, a thread of its own speaks it.

/// What this process dies of; takes the place of earlier words. Does nothing where nobody speaks
/// them (see speak_last_words()); returns whether somebody does, or has spoken some before.
/// `grace`: how long main() may still be reached once they are spoken. Never throws.
bool leave_last_words(const std::string& words,
                      std::chrono::milliseconds grace = std::chrono::seconds(2)) noexcept;

/// While one lives no words are spoken: the error was caught, and is thrown on, perhaps with better
/// words, once what has to be done before is done. Then the patience begins anew. That may hang
/// too, as a look for checkpoints on a dead disk: words that have been left for longer than
/// `longest` and the patience are spoken all the same.
class LastWordsHeld {
 public:
  static constexpr std::chrono::seconds longest{4};

  LastWordsHeld() noexcept;
  ~LastWordsHeld();
  LastWordsHeld(const LastWordsHeld&) = delete;
  LastWordsHeld& operator=(const LastWordsHeld&) = delete;
};

using SpeakLastWords =
    std::function<void(const std::string& words, std::chrono::milliseconds grace)>;

/// From here on `speak` is called with words that have been left for `patience`: once at most, on a
/// thread that is started with the first words.
void speak_last_words(std::chrono::milliseconds patience, SpeakLastWords speak);

/// Whether words have been left that somebody speaks, or has spoken: of an error that was swallowed
/// where nothing can be thrown, if main() asks.
bool last_words_are_left() noexcept;

/// Words are spoken no more: main() was reached. Does not wait for a `speak` that is under way.
void silence_last_words() noexcept;

}  // namespace tandem
