// Whether a card has room for a program.

#ifndef OFFLOAD_LIB_RUNTIME_CARDROOM_H
#define OFFLOAD_LIB_RUNTIME_CARDROOM_H

#include "offload/Runtime/Device.h"
#include "offload/Runtime/Program.h"

#include <string>

namespace offload::rt {

/// Bytes that loading takes from a card, at least: the arena, and the context
/// and libraries beside it where the process has none there yet.
int64_t neededOfCard(const Program &program, bool hasContext);

/// Throws Error with what the program needs, what `device` ("cuda:0") had free
/// before the session, and the budget that would do. Nothing where nobody can
/// say what is free: then allocating says it.
void checkCardRoom(const Program &program, const std::string &device,
                   const CardState &before);

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_CARDROOM_H
