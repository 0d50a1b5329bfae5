package chaos

import (
	"slices"
	"time"
)

// Kind names what goes wrong.
type Kind string

// scope is whom a kind of fault hits.
type scope int

const (
	oneSN scope = iota
	oneSL
	lateSN // the SN beside those that are there from the start
	lateSL // the SL beside those that the contract expects
	twoSLs
	twoSNs
	slAndSN
	slAndSNs
	allSNs // also where one is meant that shows only then, such as the leader
	allSLs
	everybody
	nobody // no node: what they need
)

// spec is all about one kind of fault. begin does it and returns what ends it.
type spec struct {
	kind        Kind
	scope       scope
	links       bool // needs network namespaces
	disks       bool // needs file systems of its own
	anew        bool // SLs begin a new session after it, or other SLs come
	rare        bool // long: one of four that are drawn is done
	wipes       bool // takes an SN's disk: for the majority that is to replace it no other SN may lose its own or be away for long
	least, most time.Duration
	begin       func(c *cluster, f Fault) (end func() error, err error)
}

// known are the kinds after which swarmd is known not to recover yet, and why. They are left out unless asked for: a
// line goes when what it names is mended.
var known = map[Kind]string{
	"sl-kill-at-end": "one that is killed at the end, and stays away until all have left, ends with MODEL_LOST",
}

// atEnd are kinds that are no part of waves: they hit a training's end.
var atEnd = []Kind{"sl-kill-at-end"}

const (
	brief = 500 * time.Millisecond
	while = 6 * time.Second
	// long is beyond the timeout of heartbeats; beyond ages dead SNs are taken out of raft.
	long = 20 * time.Second
	ages = 62 * time.Second
)

// specs are all kinds of faults.
var specs = index([]*spec{
	// SNs.
	{kind: "sn-kill", scope: oneSN, most: brief, begin: kill},
	{kind: "sn-term", scope: oneSN, least: brief, most: while, begin: away},
	{kind: "sn-stop", scope: oneSN, least: brief, most: while, begin: freeze},
	{kind: "sn-disk-full", scope: oneSN, disks: true, least: brief, most: while, begin: fillDisk},
	{kind: "sn-wipe", scope: oneSN, wipes: true, least: brief, most: while, begin: wipe},
	{kind: "sn-slow", scope: oneSN, links: true, least: brief, most: while, begin: slow},
	{kind: "sn-away-long", scope: oneSN, rare: true, least: ages, most: ages + long/2, begin: away},
	{kind: "sn-stop-long", scope: oneSN, rare: true, least: ages, most: ages + long/2, begin: freeze},
	{kind: "sn-joins-late", scope: lateSN, least: 3 * time.Second, most: 2 * while, begin: joinSN},
	{kind: "leader-isolated-long", scope: allSNs, links: true, rare: true, least: long, most: 2 * long, begin: isolateLeader},
	{kind: "leader-kill", scope: allSNs, most: brief, begin: killLeader},
	{kind: "leader-isolated", scope: allSNs, links: true, least: brief, most: while, begin: isolateLeader},
	{kind: "majority-isolated", scope: allSNs, links: true, least: brief, most: while, begin: isolateMajority},
	{kind: "all-sns-kill", scope: allSNs, most: brief, begin: killSNs},
	{kind: "all-sns-term", scope: allSNs, least: brief, most: 3 * time.Second, begin: awaySNs},
	{kind: "all-sns-stop", scope: allSNs, least: brief, most: while, begin: freezeSNs},
	{kind: "all-sns-disk-full", scope: allSNs, disks: true, least: brief, most: while, begin: fillSNs},
	// SLs.
	{kind: "sl-kill", scope: oneSL, anew: true, most: brief, begin: kill},
	{kind: "sl-away", scope: oneSL, anew: true, least: brief, most: while, begin: away},
	{kind: "sl-stop", scope: oneSL, least: brief, most: while, begin: freeze},
	{kind: "sl-away-long", scope: oneSL, anew: true, rare: true, least: long, most: 2 * long, begin: away},
	{kind: "sl-stop-long", scope: oneSL, anew: true, rare: true, least: long, most: 2 * long, begin: freeze},
	{kind: "sl-disk-full", scope: oneSL, anew: true, disks: true, least: brief, most: while, begin: fillDisk},
	{kind: "sl-wipe", scope: oneSL, anew: true, least: brief, most: while, begin: wipe},
	{kind: "sl-slow", scope: oneSL, links: true, least: brief, most: while, begin: slow},
	{kind: "sl-without-its-sn", scope: slAndSNs, anew: true, least: brief, most: while, begin: withoutSN},
	{kind: "sl-joins-late", scope: lateSL, anew: true, least: 3 * time.Second, most: 2 * while, begin: join},
	{kind: "all-sls-kill", scope: allSLs, anew: true, most: brief, begin: killSLs},
	{kind: "all-kill", scope: everybody, anew: true, most: brief, begin: killAll},
	// Programs.
	{kind: "program-kill", scope: oneSL, anew: true, most: brief, begin: killProgram},
	{kind: "program-term", scope: oneSL, anew: true, most: brief, begin: termProgram},
	{kind: "program-stop", scope: oneSL, least: brief, most: while, begin: freezeProgram},
	// Weight files.
	{kind: "local-truncate", scope: oneSL, anew: true, most: brief, begin: truncate("local")},
	{kind: "local-extend", scope: oneSL, anew: true, most: brief, begin: extend("local")},
	{kind: "local-garble", scope: oneSL, least: brief, most: while, begin: garble("local")},
	{kind: "merged-truncate", scope: oneSL, anew: true, most: brief, begin: truncate("merged-0", "merged-1")},
	{kind: "merged-extend", scope: oneSL, anew: true, most: brief, begin: extend("merged-0", "merged-1")},
	{kind: "merged-garble", scope: oneSL, anew: true, least: brief, most: while, begin: garble("merged-0", "merged-1")},
	{kind: "slots-removed", scope: oneSL, anew: true, most: brief, begin: removeSlots},
	// Links.
	{kind: "link-sl-sl", scope: twoSLs, links: true, least: brief, most: while, begin: cut},
	{kind: "link-sl-sl-one-way", scope: twoSLs, links: true, least: brief, most: while, begin: deafen},
	{kind: "link-sl-sn", scope: slAndSN, links: true, least: brief, most: while, begin: cut},
	{kind: "link-sl-sl-flaps", scope: twoSLs, links: true, least: brief, most: while, begin: flap},
	{kind: "link-sl-sn-one-way", scope: slAndSN, links: true, least: brief, most: while, begin: deafen},
	{kind: "link-sn-sn", scope: twoSNs, links: true, least: brief, most: while, begin: cut},
	{kind: "link-sn-sn-one-way", scope: twoSNs, links: true, least: brief, most: while, begin: deafen},
	{kind: "sl-unplugged", scope: oneSL, links: true, least: brief, most: while, begin: unplug},
	{kind: "sl-and-sn-split", scope: slAndSN, links: true, least: brief, most: while, begin: unplug},
	{kind: "network-split-long", scope: everybody, links: true, anew: true, rare: true, least: long, most: 2 * long, begin: split},
	{kind: "network-split", scope: everybody, links: true, least: brief, most: 2 * while, begin: split},
	// What nodes need.
	{kind: "authority-kill", scope: nobody, least: brief, most: while, begin: killAuthority},
	// A training's end.
	{kind: "sl-kill-at-end", scope: oneSL, most: brief, begin: kill},
})

func index(list []*spec) map[Kind]*spec {
	out := map[Kind]*spec{}
	for _, s := range list {
		out[s.kind] = s
	}
	return out
}

// endKinds are what goes wrong while a training ends.
func (c Config) endKinds() []Kind {
	return slices.DeleteFunc(c.kinds(), func(k Kind) bool {
		return specs[k].rare || specs[k].anew && (!c.killsAtEnd() || specs[k].scope == lateSL)
	})
}

// killsAtEnd reports whether SLs are killed while a training ends.
func (c Config) killsAtEnd() bool {
	_, left := known["sl-kill-at-end"]
	return !left || slices.Contains(c.Known, "sl-kill-at-end")
}

// Known returns the kinds that are left out unless asked for, sorted.
func Known() []Kind {
	var out []Kind
	for k := range known {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// waveKinds are the kinds that waves are made of here, sorted: a seed means the same everywhere where the same can be done.
func waveKinds(root bool, also []Kind) []Kind {
	var out []Kind
	for k, s := range specs {
		_, left := known[k]
		if (!left || slices.Contains(also, k)) && !slices.Contains(atEnd, k) && (root || !s.links && !s.disks) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
