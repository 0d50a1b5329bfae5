package bridge

import (
	"fmt"
	"io/fs"
	"os"
)

// Owner is the user that a program runs as, when that is not the daemon's own: the socket and the file that it writes are given to
// it, its group may read the merged ones, and the directories, which stay the daemon's, let it pass. Nil is a program of the daemon's
// own user that nothing contains; with that user's number, a container does.
type Owner struct{ UID, GID int }

// foreign reports whether files must be given away.
func (o *Owner) foreign() bool { return o != nil && o.UID != os.Geteuid() }

// contained reports whether the program is kept from the daemon's files by nothing but its container.
func (o *Owner) contained() bool { return o != nil && o.UID == os.Geteuid() }

// owns reports whether merged files belong to the program's user, who can open them anew to write by a descriptor that was kept.
func (o *Owner) owns() bool { return o != nil && (o.contained() || o.GID < 0) }

// Check refuses an owner that this process can't give files to.
func (o *Owner) Check() error {
	if !o.foreign() || os.Geteuid() == 0 {
		return nil
	}
	return fmt.Errorf("the program is to run as user %d, but only root may hand it the bridge's files: run the daemon as root, or run the program as this user with --ml-user %d:%d",
		o.UID, os.Geteuid(), os.Getegid())
}

// dirMode is the mode of a directory whose files the program opens by name.
func (o *Owner) dirMode() fs.FileMode {
	if o.foreign() {
		return 0o711
	}
	return 0o700
}

// mergedMode is the mode of a file that the program reads. The program's own user can at most set out to write it.
func (o *Owner) mergedMode() fs.FileMode {
	if o.foreign() && o.GID >= 0 {
		return 0o440
	}
	return mergedMode
}

// show lets the program's group read a file that stays the daemon's: who owns a file can make it writable, and open it anew by a
// descriptor that it kept, wherever the file was moved meanwhile.
func (o *Owner) show(path string) error {
	if !o.foreign() || o.GID < 0 { // then its user is all that is known of it
		return o.own(path)
	}
	return os.Lchown(path, -1, o.GID)
}

// own gives a file to the program's user.
func (o *Owner) own(path string) error {
	if !o.foreign() {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}
