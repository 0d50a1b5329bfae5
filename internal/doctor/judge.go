package doctor

import (
	"fmt"
	"time"
)

// Bounds of what is well.
const (
	// A clock that differs by so much is warned of: what nodes show of times is wrong by it.
	clockWarned = 5 * time.Second
	// Certificates of a swarm may begin to be valid a few seconds before they are made, and challenges are good for a minute.
	clockFailed = 30 * time.Second
	// MemoryWarned and DiskWarned are the free bytes below which a directory of weight files, and one of state, are warned of where the
	// model's size is not known.
	MemoryWarned = 256 << 20
	DiskWarned   = 1 << 30
	// Slots are the weight files of a session beside each other: the program's, the merged one, and the one that is being merged.
	Slots = 3
)

// Clock judges by how much another machine's clock is ahead of this one.
func Clock(whose string, ahead time.Duration) Row {
	const check = "clock"
	by := ahead.Abs().Round(time.Second)
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	detail := fmt.Sprintf("the clock of %s is %s %s this machine's", whose, by, way)
	const remedy = "let both keep time by NTP: timedatectl set-ntp true"
	switch {
	case ahead.Abs() >= clockFailed:
		return Fail(check, detail, remedy)
	case ahead.Abs() >= clockWarned:
		return Warn(check, detail, remedy)
	}
	return Well(check, fmt.Sprintf("the clock of %s agrees with this machine's", whose))
}

// Space is how much room a directory has.
type Space struct {
	Check string // the row's
	Dir   string // as the user may name it with Option
	At    string // the directory that is there, which may be one above Dir
	Free  int64  // bytes; below 0: not known, or without a bound
	Err   error  // why so many bytes as are wanted do not fit; nil: they do
}

// Weights judges whether weight files of so many bytes each have room: in the bridge directory, or else in the state directory, where they
// are slower. bytes is 0 where the model is not known.
func Weights(bridge, state Space, bytes int64) []Row {
	if bytes <= 0 {
		return []Row{
			room(bridge, MemoryWarned, "give it more room (--shm-size of a container, mount -o remount,size= of a host), or name another directory with --bridge-dir"),
			Disk(state),
		}
	}
	need := fmt.Sprintf("%d weight files of %s", Slots, Bytes(bytes))
	switch {
	case bridge.Err == nil:
		return []Row{Well(bridge.Check, fmt.Sprintf("%s: %s fit, %s", bridge.Dir, need, free(bridge))), Disk(state)}
	case state.Err == nil:
		return []Row{
			Warn(bridge.Check, fmt.Sprintf("%s: %s do not fit, %s; they would lie in the state directory, which is slower", bridge.Dir, need, free(bridge)),
				"give it more room (--shm-size of a container, mount -o remount,size= of a host), or name another directory with --bridge-dir"),
			Well(state.Check, fmt.Sprintf("%s: %s fit, %s", state.Dir, need, free(state))),
		}
	}
	return []Row{
		Fail(bridge.Check, fmt.Sprintf("%s: %s do not fit, %s", bridge.Dir, need, free(bridge)),
			"free some, or name directories with more room with --bridge-dir and --state-dir; one of the two must take them"),
		Fail(state.Check, fmt.Sprintf("%s: %s do not fit, %s", state.Dir, need, free(state)), "free some, or name another directory with --state-dir"),
	}
}

// Disk judges the room of a state directory.
func Disk(s Space) Row {
	return room(s, DiskWarned, "free some, or name another directory with --state-dir")
}

func room(s Space, least int64, remedy string) Row {
	detail := s.Dir + ": " + free(s)
	if s.Free >= 0 && s.Free < least {
		return Warn(s.Check, detail+fmt.Sprintf(", less than %s", Bytes(least)), remedy)
	}
	return Well(s.Check, detail)
}

func free(s Space) string {
	if s.Free < 0 {
		return "how much is free is not known"
	}
	return Bytes(s.Free) + " free"
}

// Bytes says a number of bytes in words.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// Handshake is what to do about the step of a handshake with an SN that is not well.
func Handshake(step, address string) string {
	switch step {
	case "identity", "certificate":
		return "renew the certificate that has ended, and let both machines keep time by NTP"
	case "name":
		return "give an address, or a name that this machine's DNS or /etc/hosts knows"
	case "connection":
		return fmt.Sprintf("start that node, or let TCP from this host to %s through every firewall between the two", address)
	case "protocol":
		return "name host and port of an SN: its API has 30304 unless --sn-api-port says otherwise, its file server 30305"
	case "accepted here":
		return "name its trust domain with --trust-domain, and let this node's authority know its CA certificates"
	case "accepted there":
		return "let that SN be started with --trust-domain of this node's domain, and let its authority know this node's CA certificates; the SN's log says why it refuses"
	case "role":
		return "name an SN: another node's port is no API"
	case "swarm":
		return "name an SN of the swarm that is meant, or leave out --swarm-id; a state directory of another swarm stays with that one: give another --state-dir or --name"
	}
	return "ask the operators of that SN: swarmctl get health"
}
