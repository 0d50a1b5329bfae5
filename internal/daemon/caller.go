package daemon

import (
	"fmt"
	"os"
)

// caller is the user on whose behalf we run, as uid:gid: under sudo the one who called it.
func caller(e Env) string {
	uid, gid := e.Getenv("SUDO_UID"), e.Getenv("SUDO_GID")
	if os.Geteuid() == 0 && number(uid) && number(gid) {
		return uid + ":" + gid
	}
	return fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
}
