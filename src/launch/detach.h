#pragma once

namespace tandem {

/// In a child that is to outlive its parent, and what that started: cuts what ties it to them, as
/// session, working directory, streams and open files, locks among them. Ends the child, with code
/// 126, where that fails. Safe between fork and exec.
void detach();

}  // namespace tandem
