#include "ranks/rank_group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "inputs/open.h"
#include "plan/plan.h"
#include "ranks/catalog_wire.h"
#include "ranks/metadata_store.h"
#include "ranks/wire.h"

namespace dcp {

FrozenCatalog RankGroup::share(OpenedCatalog mine, Store& store, FollowLinks links) {
  const std::vector<std::byte> bytes = tree_.broadcast(leads() ? catalog_to_wire(mine) : std::vector<std::byte>());
  OpenedCatalog opened = leads() ? std::move(mine) : catalog_from_wire(bytes);
  FilesTogether files = look_together(tree_, session_, store, opened.catalog, links);
  visibility_ = std::move(files.visibility);
  return freeze(std::move(opened), files.found);
}

// Only the rank that opened torch.save files knows their content (catalog_wire.cc).
bool RankGroup::is_read_here(const Catalog& catalog, uint32_t file, uint32_t turn) const {
  if (catalog.traits().in_torch_files) return leads();
  return visibility_.reader(file, turn) == session_.rank();
}

Resolved RankGroup::resolve(DataFiles& files, std::span<const TensorId> tensors, std::span<const BlobId> blobs, ResolveOptions options,
                            const StopFlag& stop) {
  const Catalog& catalog = files.catalog();
  // Each file has one reader, on which all ranks agree. A file that rank 0 has opened as the checkpoint itself is read by rank 0, since it
  // is the first.
  std::vector<bool> mine(catalog.files.size());
  for (uint32_t f = 0; f < mine.size(); ++f)
    mine[f] = is_read_here(catalog, f, f % session_.world_size()) && visibility_.sees(session_.rank(), f);
  options.only_files = &mine;
  Resolved resolved = dcp::resolve(files, tensors, blobs, options, stop);
  tree_.gather([&](Bytes bytes) { merge_resolved(resolved, catalog, bytes); }, [&] { return resolved_to_wire(resolved); });
  const std::vector<std::byte> all = tree_.broadcast(leads() ? resolved_to_wire(resolved) : std::vector<std::byte>());
  if (leads()) return resolved;
  Resolved shared;
  merge_resolved(shared, catalog, all);
  return shared;
}

std::unique_ptr<Store> RankGroup::gather_remote_metadata(Store& store, const std::string& path) {
  auto files = gather_metadata(tree_, store, path, {});
  return leads() && !files.empty() ? with_files(store, path, std::move(files)) : nullptr;
}

namespace {

// One copy: what was read, or why it could not be read.
struct Read {
  ItemContent content;
  std::optional<Problem> fault;
};
using Contents = std::map<std::pair<uint64_t, Copy>, Read>;  // by index of the duplicate

std::vector<std::byte> contents_to_wire(const Contents& contents) {
  WireWriter out;
  out.number<uint64_t>(contents.size());
  for (const auto& [which, read] : contents) {
    out.number(which.first);
    out.number(which.second);
    out.text(read.content.facts);
    out.array(read.content.records);
    out.number(read.fault.has_value());
    if (read.fault) out.problem(*read.fault);
  }
  return out.take();
}

void merge_contents(Contents& into, Bytes bytes) {
  WireReader in(bytes);
  for (auto count = in.number<uint64_t>(); count > 0; --count) {
    const auto index = in.number<uint64_t>();
    const auto copy = in.one_of<Copy>(2);
    Read read{.content = {.facts = in.text(), .records = in.array<RecordContent>()}, .fault = {}};
    if (in.number<bool>()) read.fault = in.problem();
    into.emplace(std::pair(index, copy), std::move(read));
  }
}

}  // namespace

ContentOf RankGroup::gather_contents(const Source& source, const Limits& limits) {
  const auto contents = std::make_shared<Contents>();
  for (uint64_t i = 0; i < source.catalog.duplicates.size(); ++i) {
    const Duplicate& d = source.catalog.duplicates[i];
    if (!source.resolved.items[d.item].resolved) continue;
    for (const Copy copy : {Copy::kUsed, Copy::kOther}) {
      const uint32_t file = copy == Copy::kUsed ? source.catalog.items[d.item].file : d.other.file;
      if (!is_read_here(source.catalog, file, 0)) continue;
      Read& read = (*contents)[{i, copy}];
      try {
        read.content = content_of(source.files, source.catalog, d, copy, limits);
      } catch (const Error& e) {
        read.fault = e.problem();
      }
    }
  }
  tree_.gather([&](Bytes bytes) { merge_contents(*contents, bytes); }, [&] { return contents_to_wire(*contents); });
  return [contents, &catalog = source.catalog](const Duplicate& d, Copy copy) {
    const Read& read = contents->at({static_cast<uint64_t>(&d - catalog.duplicates.data()), copy});
    if (read.fault) throw Error(*read.fault);
    return read.content;
  };
}

std::vector<std::string> RankGroup::broadcast_texts(const std::vector<std::string>& texts) {
  WireWriter out;
  out.number<uint64_t>(texts.size());
  for (const std::string& t : texts) out.text(t);
  const std::vector<std::byte> bytes = tree_.broadcast(out.take());
  WireReader in(bytes);
  std::vector<std::string> reported(in.count());
  for (std::string& t : reported) t = in.text();
  return reported;
}

void RankGroup::check_same_plan(const Plan& plan) {
  const uint64_t mine = digest_of(plan);
  tree_.gather(
      [&](Bytes bytes) {
        WireReader in(bytes);
        const auto rank = in.number<uint32_t>();
        const auto theirs = in.number<uint64_t>();
        if (theirs != mine)
          fail(ProblemId::ranks_differ, {.rank = rank}, "another plan than rank " + std::to_string(session_.rank()),
               "the same plan on all ranks");
      },
      [&] {
        WireWriter out;
        out.number(session_.rank());
        out.number(mine);
        return out.take();
      });
}

void RankGroup::gather_digests(DigestSink& sink) {
  std::vector<DigestSink::Part> parts = sink.parts();
  tree_.gather(
      [&](Bytes bytes) {
        const auto theirs = WireReader(bytes).array_of<DigestSink::Part>(parts.size());
        for (size_t i = 0; i < parts.size(); ++i) parts[i].raw ^= theirs[i].raw, parts[i].bytes += theirs[i].bytes;
      },
      [&] {
        WireWriter out;
        out.array(parts);
        return out.take();
      });
  sink.set(parts);
}

std::vector<Problem> RankGroup::gather_problems(std::vector<Problem> all) {
  std::unordered_set<std::string> known;
  for (const Problem& p : all) known.insert(to_line(p));
  tree_.gather(
      [&](Bytes bytes) {
        WireReader in(bytes);
        for (auto count = in.number<uint64_t>(); count > 0; --count) {
          Problem p = in.problem();
          if (known.insert(to_line(p)).second) all.push_back(std::move(p));
        }
      },
      [&] {
        WireWriter out;
        out.number<uint64_t>(all.size());
        for (const Problem& p : all) out.problem(p);
        return out.take();
      });
  return all;
}

std::vector<RankWork> RankGroup::gather_work(RankWork mine, const std::string& host) {
  mine.rank = session_.rank();
  mine.files_seen = visibility_.files_seen(mine.rank);
  std::vector<RankWork> all{mine};
  std::vector<std::string> hosts{host};
  tree_.gather(
      [&](Bytes bytes) {
        WireReader in(bytes);
        for (const RankWork& w : in.array<RankWork>()) {
          if (w.rank >= session_.world_size()) fail(ProblemId::internal, {}, "a message between ranks of rank " + std::to_string(w.rank));
          all.push_back(w);
          hosts.push_back(in.text());
        }
      },
      [&] {
        WireWriter out;
        out.array(all);
        for (const std::string& h : hosts) out.text(h);
        return out.take();
      });
  hosts_.resize(session_.world_size());
  for (size_t i = 0; i < all.size(); ++i) hosts_.at(all[i].rank) = hosts[i];
  std::ranges::sort(all, {}, &RankWork::rank);
  return all;
}

// Once a rank knows the code, it ends with it, even if another rank has gone since.
int RankGroup::end(int code) {
  WireWriter out;
  out.number(code);
  std::optional<int> known;
  try {
    tree_.broadcast(out.take(), [&](Bytes bytes) {
      known = WireReader(bytes).number<int>();
      session_.done();
    });
  } catch (const Error&) {
    if (!known) throw;
  }
  return *known;
}

}  // namespace dcp
