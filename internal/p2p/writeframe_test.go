package p2p_test

import (
	"bytes"
	"io"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// streams opens a stream with a connection of its own and one that shares its.
func streams(t *testing.T) map[string]*p2p.Stream {
	t.Helper()
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	alone, err := sl.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*p2p.Stream{"alone": alone, "shared": shared}
}

func TestWriteFrame(t *testing.T) {
	for name, s := range streams(t) {
		header, payload := []byte("nine byte"), bytes.Repeat([]byte("payload."), 8<<10)
		for _, n := range []int{0, 1, 16 << 10, len(payload)} {
			wrote := make(chan error, 1)
			go func() {
				k, err := s.WriteFrame(header, payload[:n])
				if k != len(header)+n {
					t.Errorf("%s: %d of %d bytes written", name, k, len(header)+n)
				}
				wrote <- err
			}()
			got := make([]byte, len(header)+n)
			if _, err := io.ReadFull(s, got); err != nil {
				t.Fatal(name, err)
			}
			if err := <-wrote; err != nil || string(got) != string(header)+string(payload[:n]) {
				t.Errorf("%s: %d bytes of payload came back as something else, %v", name, n, err)
			}
		}
	}
}

// TestWriteFrameOfMemoryThatIsGone holds that a fault in the payload reaches the caller, and that no rest of the frame, nor
// anything else, follows what was sent of it.
func TestWriteFrameOfMemoryThatIsGone(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	if err := unix.Mprotect(mem[32<<10:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for name, s := range streams(t) {
		faulted := func() (faulted bool) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() { faulted = recover() != nil }()
			_, _ = s.WriteFrame([]byte("header"), mem)
			return
		}()
		if !faulted {
			t.Errorf("%s: no fault", name)
		}
		if name == "alone" {
			if n, err := s.Write([]byte("after it")); err == nil {
				t.Errorf("%d bytes were written after a frame that broke off", n)
			}
		}
		if err := s.Reset(); err != nil {
			t.Error(name, err)
		}
	}
}
