// Parameters of an optimizer's groups of which it keeps nothing, in each form that names them.
#include "items/idle_parameters.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/fake_io.h"
#include "catalog/made_blobs.h"
#include "inputs/open.h"

using namespace dcp;
using namespace dcp::test;
using Lines = std::vector<std::string>;

namespace {

// A list of names, of numbers where they are such; or, with `groups`, one of a dict that has it as `params`.
MadeBlob params(const std::string& key, const Lines& names, bool groups = false) {
  MadeBlob blob{.key = key, .pickle = {}};
  PickleWriter out(blob.pickle, PickleProtocol::k2);
  out.begin();
  const auto open = [&](dcp::Op container) {
    out.op(container);
    out.op(dcp::Op::MARK);
  };
  if (groups) {
    open(dcp::Op::EMPTY_LIST);
    open(dcp::Op::EMPTY_DICT);
    out.text("lr");
    out.real(0.5);
    out.text("params");
  }
  open(dcp::Op::EMPTY_LIST);
  for (const std::string& name : names) {
    if (name.find_first_not_of("0123456789") == name.npos) out.integer(std::stoi(name));
    else out.text(name);
  }
  out.op(dcp::Op::APPENDS);
  if (groups) {
    out.op(dcp::Op::SETITEMS);
    out.op(dcp::Op::APPENDS);
  }
  out.end();
  return blob;
}

Lines notes(const std::vector<MadeBlob>& blobs, const Lines& tensors) {
  MadeCheckpoint made;
  made.blobs = blobs;
  for (const std::string& key : tensors) made.tensors.push_back(whole_tensor(key, DType::float32, {1}));
  FakeIo io;
  made.put(io, "ckpt");
  const FrozenCatalog opened = open_checkpoint(io, "ckpt", {});
  DataFiles files(io, opened->catalog, FollowLinks::kCacheOnly);
  Lines lines;
  for (const Problem& p : find_idle_parameters(files, opened->catalog, {})) {
    CHECK(p.severity == Severity::kNote);
    CHECK(id_name(p.id) == "parameters_idle");
    lines.push_back(p.got);
  }
  return lines;
}

}  // namespace

TEST_CASE("lists of parameters, by name or by number") {
  const MadeBlob names = params("opt.param_groups.0.params", {"l.w", "l.b"}), more = params("opt.param_groups.1.params", {"n"});
  CHECK(notes({names, more}, {"opt.state.l.w.exp_avg", "opt.state.l.b.exp_avg", "opt.state.n.exp_avg"}).empty());
  CHECK(notes({names, more}, {"opt.state.l.w.exp_avg", "opt.state.l.w.step"}) == Lines{"2 of 3 parameters of 'opt', such as 'l.b'"});
  CHECK(notes({names, more}, {"w"}) == Lines{"3 of 3 parameters of 'opt', such as 'l.b'"});
  CHECK(notes({params("param_groups", {"0", "1"}, true)}, {"state.0.exp_avg"}) == Lines{"1 of 2 parameters, such as '1'"});
  CHECK(notes({params("a.param_groups.0", {}), params("a.param_groups.0.params", {"0"})}, {"a.state.01.exp_avg", "b.state.0.exp_avg"})
            .empty());
}

TEST_CASE("groups that are flattened by parameter") {
  const auto blobs = [] {
    return std::vector{number_blob("opt.param_groups.l.w.lr", 1), number_blob("opt.param_groups.l.w.eps", 1),
                       number_blob("opt.param_groups.l.b.lr", 1)};
  };
  CHECK(notes(blobs(), {"opt.state.l.w.exp_avg"}) == Lines{"1 of 2 parameters of 'opt', such as 'l.b'"});
  CHECK(notes(blobs(), {"opt.state.l.w.exp_avg", "opt.state.l.b.exp_avg"}).empty());
}

TEST_CASE("state under other names, and what is no list, say nothing") {
  CHECK(notes({params("opt.param_groups.0.params", {"0"})}, {"opt.state.l.w.exp_avg"}).empty());
  CHECK(notes({number_blob("opt.state", 1), params("opt.param_groups.0.params", {"0"})}, {}).empty());
  CHECK(notes({number_blob("opt.param_groups.0.params", 3)}, {"w"}).empty());
  CHECK(notes({params("my_param_groups.0.params", {"w"})}, {"w"}).empty());
}
