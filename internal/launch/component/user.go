package component

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// identityOf decides as which user a component runs, in this order:
//
//  1. -u, if the user says so;
//  2. root, if the component deals with the engine: its socket is root's, and so are the bridge files that it hands over to
//     the ML program's user;
//  3. the owner of what only its owner may read (a key of mode 0600) or write (the state directory), since a bind mount
//     brings the host's owners and modes with it: the caller, as a rule. What the caller's group may read makes the
//     container join that group;
//  4. the image's user ("").
//
// All private files must have one owner.
func identityOf(s Spec, h host) (user string, groups []string, err error) {
	if s.User != "" {
		return s.User, nil, nil
	}
	if s.EngineSocket {
		return "0:0", nil, nil
	}
	owner, of := -1, ""
	var gid int
	need := func(p string, f fileInfo) error {
		if owner >= 0 && owner != f.uid {
			return fmt.Errorf("%s belongs to user %d, %s to user %d, and nobody else may use them: give both one owner, or let -u 0 run the component as root", of, owner, p, f.uid)
		}
		owner, of, gid = f.uid, p, f.gid
		return nil
	}
	paths := slices.Clone(s.Files)
	for _, p := range s.Files {
		inside, err := h.readDir(p)
		if err == nil {
			paths = append(paths, inside...)
		}
	}
	for _, p := range paths {
		f, err := h.stat(p)
		if err != nil {
			return "", nil, fmt.Errorf("%s: bad file: no such file or directory on this host", p)
		}
		want := uint32(0o4)
		if f.mode.IsDir() {
			want = 0o5
		}
		perm := uint32(f.mode.Perm())
		switch {
		case perm&want == want:
		case perm&(want<<3) == want<<3 && f.uid != h.uid && f.gid != h.gid:
			groups = append(groups, strconv.Itoa(f.gid))
		default:
			if err := need(p, f); err != nil {
				return "", nil, err
			}
		}
	}
	if s.StateDir != "" {
		f, err := h.stat(s.StateDir)
		if err != nil {
			f = fileInfo{uid: h.uid, gid: h.gid} // Run makes it
		}
		if err := need(s.StateDir, f); err != nil {
			return "", nil, err
		}
	}
	for _, m := range s.Mounts {
		if f, err := h.stat(m.Source); err == nil && !m.ReadOnly && f.mode.Perm()&0o002 == 0 {
			if err := need(m.Source, f); err != nil {
				return "", nil, err
			}
		}
	}
	if owner < 0 {
		return "", groups, nil
	}
	if owner == h.uid {
		gid = h.gid
	}
	return fmt.Sprintf("%d:%d", owner, gid), slices.Compact(groups), nil
}

// numeric is the user that a container has: the image's if nothing else is said. Names other than root's stay as they are.
func numeric(user, image string) string {
	if user == "" {
		user = image
	}
	if user == "" || user == "root" {
		return "0:0"
	}
	return user
}

// ids takes uid and gid apart; known is false if one is a name.
func ids(user string) (uid, gid int, known bool) {
	u, g, both := strings.Cut(user, ":")
	uid, err := strconv.Atoi(u)
	if err != nil {
		return 0, 0, false
	}
	if both {
		if gid, err = strconv.Atoi(g); err != nil {
			return 0, 0, false
		}
	}
	return uid, gid, true
}
