#pragma once

#include <memory>
#include <string>

namespace grpc {
class Channel;
}

namespace warmring {

// A channel of the caller's own to one server, without transport security. It
// notices a server that is gone without a word, and its own reconnecting is
// quick: who uses it has a back-off already.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint);

}  // namespace warmring
