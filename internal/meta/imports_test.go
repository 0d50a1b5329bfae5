package meta

import (
	"fmt"
	"slices"
	"strings"
)

// ranks is the law of imports: a package imports only packages of earlier rows, never one of its own row. Tests may
// import what they exercise. docs/ARCHITECTURE.md shows the same table to people.
var ranks = []struct {
	name     string
	packages []string
}{
	{"0-", []string{"consensus/ledger", "consensus/planner/independent", "identity/claim", "identity/naming", "identity/pattern", "internal/atomicfile", "internal/bucket", "internal/filelock", "internal/history/crcline", "internal/suggest", "internal/text", "internal/unpack", "merge/blake", "merge/exchange/dialing", "merge/exchange/schedule", "merge/exchange/scratch"}}, // the state counts its records and decides who may take part, a digest is a hash
	{"0-a", []string{"internal/policy/sentence"}},                 // sentences are over patterns; the state decides by them too
	{"0-+", []string{"consensus/task", "internal/policy/rights"}}, // the state has its steps in commands
	{"0", []string{
		"consensus/state", "identity", "merge", "api/swarm/v1", "python", "internal/bridge/wire", "internal/child", "internal/address", "internal/doctor", "internal/heap", "internal/logs/form", "internal/mountns", "internal/netns", "internal/dockerfile", "internal/nonce", "internal/pause", "internal/policy", "internal/reach", "internal/refused", "internal/session/attemptlog", "internal/shellwords", "internal/space", "internal/terminal", "internal/userdirs", "internal/version", "internal/yamlfile",
	}},
	{"0a", []string{"internal/round"}},
	{"0b", []string{"internal/round/onwire", "consensus/task/onwire"}}, // rounds, and what hosts see, as the API carries them
	// Connect's code is generated beside its messages; a SPIRE agent's plugin needs only the roles; everything that deals in
	// containers stands on the engine.
	{"0+", []string{"internal/cmdline", "internal/consent", "internal/logs", "internal/jobfile", "internal/rendezvous", "internal/taskfile", "internal/invitation", "internal/trust", "internal/session/composite", "internal/session/proof", "internal/session/statement", "internal/delta", "internal/session/recipients", "consensus/raftnet", "consensus/segments", "consensus/admission", "consensus/backup", "consensus/watchdog", "consensus/roster", "consensus/liveness", "consensus/quorum", "consensus/ledgerfile", "internal/epoch", "api/swarm/v1/swarmv1connect", "identity/spire/attestor", "internal/launch/engine", "internal/launch/sudo", "internal/bridge/original/array", "merge/exchange/leafset", "merge/exchange/wire"}},
	{"0++", []string{"internal/adsfile", "internal/framework", "consensus/store", "consensus/peerconn", "consensus/planner/notices", "consensus/planner/reports", "consensus/planner/warning", "consensus/planner/weightcap", "internal/session/models", "merge/exchange/inventory", "merge/exchange/leafio", "merge/exchange/spill", "internal/bridge/original/frames", "internal/bridge/original/pickle"}}, // the stores of the log, its segments, the ledger; links on raftnet's streams
	{"0+++", []string{"internal/jobrequest"}}, // a job as what a swarm decides by
	{"1", []string{
		"consensus", "consensus/planner", "consensus/assign", "internal/p2p", "internal/launch", "internal/bridge", "internal/bridge/program",
		"internal/events", "internal/health", "internal/history", "internal/registry", "internal/session", "merge/exchange", "identity/embedded", "identity/certs", "identity/spire",
	}},
	{"1a", []string{"internal/history/keeper", "internal/work", "internal/work/gpus", "internal/work/hostpaths", "internal/work/ownimage", "internal/work/procs", "internal/work/secret", "internal/work/sockets", "internal/work/taskenv"}}, // what a host does, by executors
	{"1+", []string{"internal/reach/pairs", "internal/probe/board", "internal/rpc/quota", "internal/handshake", "internal/bridge/original", "internal/fetch", "internal/figures", "internal/forward", "internal/invited", "internal/logs/direct", "consensus/ledger/audit", "consensus/planner/explain", "consensus/recovery", "internal/launch/component", "internal/launch/container", "internal/launch/stop", "internal/work/artifacts", "internal/work/detached", "internal/work/jobcommand", "internal/work/localimage", "internal/work/ocikey", "internal/work/stopfile", "internal/work/upload", "internal/work/volume"}}, // what runs in containers stands on launch and the engine
	{"1++", []string{"internal/probe", "internal/rpc/messages", "internal/rpc/permit", "internal/rpc/proven", "internal/rpc/nodehealth", "internal/rpc/dialback", "internal/launch/start", "internal/rpc/logboard", "internal/rpc/proxy", "internal/rpc/tasks", "internal/work/jobnet"}},                                                                                                                                                                                                                                                                                                                                         // verifies as the audit does
	{"2", []string{"consensus/restore", "internal/rpc", "internal/client"}}, // the latter know the API, neither the other
	{"2a", []string{"internal/ranks", "internal/swop", "internal/work/build", "internal/work/containers", "internal/work/content", "internal/work/image", "internal/work/runjob", "internal/work/runswarm"}}, // executors of internal/work, and what joins them with the swarm
	{"2+", []string{"internal/swop/tasktypes", "internal/runner", "internal/admission", "internal/membership", "internal/metrics"}},
	{"2++", []string{"internal/peering"}},
	{"3", []string{"node"}},
	// Parts of swci; nobody else imports them (onlyFor).
	{"4-a", []string{"internal/swci/exit", "internal/swci/metrics", "internal/swci/modelfile"}},
	{"4-b", []string{"internal/swci/backupfile", "internal/swci/deeds", "internal/swci/hostlogs", "internal/swci/logpack", "internal/swci/report", "internal/swci/cluster", "internal/swci/project", "internal/swci/tasks", "internal/swci/track/mlflow", "internal/swci/track/tensorboard"}},
	{"4-c", []string{"internal/swci/jobs", "internal/swci/local", "internal/swci/bench", "internal/swci/dashboard", "internal/swci/shell", "internal/swci/top", "internal/swci/track", "internal/swci/web"}},
	{"4", []string{"internal/daemon", "internal/swci"}},
	{"5", []string{"cmd/swarmd", "cmd/swarmctl"}},
}

// testOnly are packages for tests: they may import what they exercise, and only tests and each other import them.
var testOnly = []string{
	"internal/chaos", "internal/chaos/cmd/chaos", "internal/e2e", "internal/e2e/deploy", "internal/e2e/docker", "internal/e2e/e2etest", "internal/e2e/images", "internal/e2e/jobs", "internal/e2e/links", "internal/e2e/published", "internal/e2e/ranks", "internal/e2e/spire", "internal/meta", "identity/gatetest", "internal/p2p/p2ptest", "internal/rpc/rpctest", "node/nodetest", "node/nodetest/slots", "node/survive", "merge/mergetest",
	"identity/spire/spiretest", "internal/launch/enginetest", "internal/launch/isolation", "internal/terminal/terminaltest",
}

// onlyFor are trees of packages that belong to one package.
var onlyFor = []string{"internal/swci"}

// never are imports that the ranks would allow. A name stands for itself and everything under it.
var never = []struct{ from, to, why string }{
	{"internal/swci", "node", "swarmctl reaches a daemon through internal/client or starts a process"},
	{"internal/swci", "consensus", "swarmctl reaches a daemon through internal/client"},
	{"internal/swci", "internal/rpc", "swarmctl is a client of the API, not a server"},
	{"internal/session", "internal/bridge", "node joins the two; a session knows the answers alone, which it keeps"},
	{"internal/session", "api/swarm/v1", "a session speaks of rounds; internal/round/onwire converts at the edges"},
	{"internal/trust", "api/swarm/v1", "it judges what internal/round has of views"},
	{"merge/exchange", "api/swarm/v1", "exchange is given plans, and yields digests"},
	{"consensus", "github.com/libp2p", "consensus is given a Network"},
	{"merge/exchange", "github.com/libp2p", "exchange is given streams"},
	{"internal/session", "github.com/libp2p", "the session is given its ports"},
	{"internal/bridge", "github.com/libp2p", "a program's bridge knows no peers"},
}

// formats are packages that anybody may use: what they describe is read and written without a swarm, and without a socket.
var formats = []string{"consensus/backup", "consensus/ledger", "consensus/ledger/audit", "internal/bridge/wire"}

// pure are packages that may import only what is listed: no clock, no randomness, no I/O, no network.
var pure = map[string][]string{
	"consensus/state": {
		"bytes", "cmp", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "io", "iter",
		"maps", "slices", "sort", "strconv", "strings", "unicode", "unicode/utf8", "crypto/sha256", "consensus/ledger", "consensus/task", "identity/claim", "identity/naming", "identity/pattern", "internal/policy/rights", "math",
	},
	"consensus/task": {
		"bytes", "cmp", "crypto/sha256", "encoding/hex", "encoding/json", "errors", "fmt", "maps", "slices", "strconv", "strings", "unicode/utf8", "consensus/ledger", "identity/naming",
	},
	"internal/taskfile": {
		"bytes", "cmp", "errors", "fmt", "slices", "strconv", "strings", "go.yaml.in/yaml/v3", "consensus/task", "identity/naming", "internal/suggest", "internal/text", "internal/yamlfile",
	},
	"internal/yamlfile": {
		"bytes", "cmp", "errors", "fmt", "io", "regexp", "slices", "strconv", "strings", "unicode", "go.yaml.in/yaml/v3", "internal/suggest", "internal/text",
	},
	"internal/jobfile": {
		"cmp", "encoding/base64", "errors", "fmt", "io", "io/fs", "path", "regexp", "slices", "strconv", "strings", "time", "unicode/utf8", "go.yaml.in/yaml/v3", "identity/naming", "internal/shellwords", "internal/text", "internal/yamlfile",
	},
	"internal/adsfile": {
		"errors", "fmt", "path", "regexp", "slices", "strconv", "strings", "time", "go.yaml.in/yaml/v3", "internal/jobfile", "internal/shellwords", "internal/suggest", "internal/yamlfile",
	},
	"internal/framework":            {"embed", "encoding/json", "errors", "fmt", "path", "slices", "strconv", "strings", "time", "internal/jobfile", "internal/shellwords"},
	"internal/jobrequest":           {"crypto/sha256", "encoding/hex", "errors", "fmt", "regexp", "slices", "strings", "consensus/ledger", "consensus/task", "internal/framework", "internal/jobfile"},
	"internal/dockerfile":           {"errors", "fmt", "regexp", "slices", "strconv", "strings", "internal/suggest"},
	"internal/round":                {"slices", "consensus/state", "merge"},
	"internal/text":                 {"strconv", "strings", "unicode", "unicode/utf8"},
	"consensus/planner/independent": {"slices"},
	"consensus/planner/weightcap":   {"slices", "consensus/state"},
	"consensus/planner/warning":     {"cmp", "fmt", "slices", "consensus/state", "internal/round"},
	"identity/claim":                {"crypto/ed25519", "encoding/binary"},
	"identity/naming":               {"fmt"},
	"identity/pattern":              {"fmt", "slices", "strings"},
	"internal/policy": {
		"bytes", "crypto/sha256", "encoding/hex", "errors", "fmt", "io", "path", "regexp", "slices", "strconv", "strings", "time", "go.yaml.in/yaml/v3", "identity/pattern", "internal/policy/sentence", "internal/suggest", "internal/text",
	},
	"internal/policy/rights":   {"fmt", "strings", "identity/pattern", "internal/policy/sentence"},
	"internal/policy/sentence": {"errors", "fmt", "slices", "strings", "unicode", "unicode/utf8", "identity/pattern", "internal/suggest"},
	"consensus/ledger":         {"bytes", "cmp", "slices", "crypto/sha256", "encoding/hex", "encoding/json", "errors", "fmt", "io"},
	"internal/doctor":          {"encoding/json", "errors", "fmt", "internal/text", "io", "slices", "strings", "time", "unicode/utf8"},
	"merge": {
		"bytes", "cmp", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "io", "iter", "maps", "math",
		"math/big", "math/bits", "simd/archsimd", "slices", "sort", "strconv", "strings", "unicode/utf8", "unsafe", "lukechampine.com/blake3", "merge/blake", "internal/text",
	},
	"merge/blake": {"encoding/binary", "simd/archsimd", "lukechampine.com/blake3", "lukechampine.com/blake3/guts"},
	"internal/invitation": {
		"bytes", "crypto/sha256", "crypto/x509", "encoding/base32", "encoding/base64", "encoding/json", "encoding/pem", "errors", "fmt", "net", "net/netip", "regexp", "strconv",
		"strings", "time", "unicode", "github.com/spiffe/go-spiffe/v2/spiffeid", "identity", "identity/claim", "identity/naming",
	},
	"internal/bridge/wire": {"encoding/json", "errors", "fmt", "strconv", "strings"},
}

func under(name, tree string) bool { return name == tree || strings.HasPrefix(name, tree+"/") }

// checkRanks holds the table: every package has a rank, and imports only lower ones.
func checkRanks(r *repo) (found []violation) {
	rank := map[string]int{}
	for i, row := range ranks {
		for _, name := range row.packages {
			rank[name] = i
			if !r.has(name) {
				found = append(found, violation{name, "has a rank but does not exist: take it out of ranks"})
			}
		}
	}
	for _, p := range r.packages {
		mine, ranked := rank[p.name]
		if slices.Contains(testOnly, p.name) {
			continue
		}
		if !ranked {
			found = append(found, violation{p.name, "has no rank: add it to ranks in internal/meta and to docs/ARCHITECTURE.md"})
			continue
		}
		for _, imported := range p.imports {
			if theirs, ok := rank[imported]; ok && theirs >= mine {
				found = append(found, violation{p.name, fmt.Sprintf("(rank %s) imports %s (rank %s): only lower ranks may be imported",
					ranks[mine].name, imported, ranks[theirs].name)})
			}
		}
	}
	return found
}

// checkTestOnly keeps stand-ins out of the product.
func checkTestOnly(r *repo) (found []violation) {
	for _, name := range testOnly {
		if !r.has(name) {
			found = append(found, violation{name, "is listed as test-only but does not exist"})
		}
	}
	for _, p := range r.packages {
		for _, imported := range p.imports {
			if slices.Contains(testOnly, imported) && !slices.Contains(testOnly, p.name) {
				found = append(found, violation{p.name, "imports " + imported + ", which is for tests only"})
			}
		}
	}
	return found
}

// checkNever holds what ranks can't say.
func checkNever(r *repo) (found []violation) {
	for _, n := range never {
		own := !strings.Contains(n.to, ".")
		if !r.dir(n.from) || own && !r.dir(n.to) {
			found = append(found, violation{n.from, "is forbidden to import " + n.to + ", but one of the two does not exist"})
		}
	}
	for _, p := range r.packages {
		if slices.Contains(testOnly, p.name) {
			continue
		}
		for _, imported := range p.imports {
			for _, n := range never {
				if under(p.name, n.from) && under(imported, n.to) && !slices.Contains(formats, imported) {
					found = append(found, violation{p.name, "imports " + imported + ": " + n.why})
				}
			}
			for _, owner := range onlyFor {
				if imported != owner && under(imported, owner) && !under(p.name, owner) {
					found = append(found, violation{p.name, "imports " + imported + ", which is a part of " + owner})
				}
			}
		}
	}
	return found
}

// checkPure holds the allow-lists of the pure packages.
func checkPure(r *repo) (found []violation) {
	for name := range pure {
		if !r.has(name) {
			found = append(found, violation{name, "is listed as pure but does not exist"})
		}
	}
	for _, p := range r.packages {
		allowed, listed := pure[p.name]
		if !listed {
			continue
		}
		for _, imported := range p.imports {
			if !slices.Contains(allowed, imported) {
				found = append(found, violation{p.name, "is pure and must not import " + imported})
			}
		}
	}
	return found
}
