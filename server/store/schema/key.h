#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "core/base/ids.h"

// The keys of the store. Numbers are written with 20 digits, so that their order is that of the
// bytes. The parts come from ids, whose grammar has no '/'.
//
//   meta/format                  number of this layout
//   history                      history id, 32 hex digits
//   term                         number of the last start
//   ks/{keyspace}/spec           what the keyspace is
//   ks/{keyspace}/head           version, next epoch, digest: flips last
//   ks/{keyspace}/delta/{v}      how version v came to be: author, reason, time, the change
//   ks/{keyspace}/page/{v}/{n}   version v in whole, in pages of 64 KiB
//   mig/{keyspace}/{migration}   the record of a migration, its changing part
//   plan/{keyspace}/{migration}/{n}  its plan and preview in pages; never change
//   sess/{keyspace}/{node}       the last incarnation that opened a session
//   req/{principal}/{id}         what a request id stands for
//   audit/{time}/{n}             who changed what

namespace warmring::schema {

inline constexpr char kFormat[] = "1";
inline constexpr size_t kPageBytes = 64 * 1024;

std::string FormatKey();
std::string HistoryKey();
std::string TermKey();
// Of all keyspaces; behind it comes the id.
std::string KeyspacesPrefix();
std::string SpecKey(std::string_view keyspace);
std::string HeadKey(std::string_view keyspace);
std::string DeltaKey(std::string_view keyspace, Version version);
std::string PageKey(std::string_view keyspace, Version version, uint64_t page);
std::string MigrationsPrefix(std::string_view keyspace);
std::string MigrationKey(std::string_view keyspace, std::string_view migration);
std::string PlanPageKey(std::string_view keyspace, std::string_view migration, uint64_t page);
std::string SessionsPrefix(std::string_view keyspace);
std::string SessionKey(std::string_view keyspace, std::string_view node);
std::string RequestsPrefix();
std::string RequestKey(std::string_view principal, std::string_view id);
std::string AuditKey(absl::Time time, uint64_t number);

}  // namespace warmring::schema
