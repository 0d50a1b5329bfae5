package blake_test

import (
	"encoding/hex"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/swarmd/swarmd/merge/blake"
)

func TestSumIsBLAKE3(t *testing.T) {
	b := make([]byte, 2*blake.Largest)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	const step = 16 << 10
	for n := 0; n <= len(b); n += step {
		for _, off := range []int{-1025, -1024, -64, -1, 0, 1, 63, 64, 1023, 1024, 1025, 2048, step / 2} {
			if m := n + off; m >= 0 && m <= len(b) && blake.Sum(b[:m]) != blake3.Sum256(b[:m]) {
				t.Errorf("digest of %d bytes differs", m)
			}
		}
	}
}

func TestSumOfAnyLength(t *testing.T) {
	b := make([]byte, blake.Largest)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(b)
	for n := 0; n <= len(b); n += 1 + n%61 {
		if blake.Sum(b[:n]) != blake3.Sum256(b[:n]) {
			t.Errorf("digest of %d bytes differs", n)
		}
	}
}

// TestSumFaultsInTheCaller holds that memory is touched in the calling goroutine only: in another one a fault could not be
// recovered from, and would end the test.
func TestSumFaultsInTheCaller(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, blake.Largest, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	for _, n := range []int{1, 1024, 16 << 10, 16<<10 + 1, 32 << 10, 100_000, blake.Largest - 1, blake.Largest} {
		faulted := func() (faulted bool) {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() { faulted = recover() != nil }()
			blake.Sum(mem[:n])
			return
		}()
		if !faulted {
			t.Errorf("%d bytes: no fault", n)
		}
	}
}

// TestSumAnywhere sums bytes that start anywhere in a vector, as those behind a header do, and other ones each time.
func TestSumAnywhere(t *testing.T) {
	b := make([]byte, blake.Largest+64)
	r := rand.NewChaCha8([32]byte{2})
	for at := range 65 {
		_, _ = r.Read(b)
		for n := 2 * (16 << 10); n <= blake.Largest; n += 16 << 10 {
			if part := b[at : at+n : at+n]; blake.Sum(part) != blake3.Sum256(part) {
				t.Errorf("digest of %d bytes from %d on differs", n, at)
			}
		}
	}
}

// TestSumKnown has BLAKE3's published test vectors, and others of the same kind of input by its authors' own program.
func TestSumKnown(t *testing.T) {
	b := make([]byte, blake.Largest)
	for i := range b {
		b[i] = byte(i % 251)
	}
	for _, v := range []struct {
		bytes int
		want  string
	}{
		{0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
		{1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
		{1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
		{1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
		{1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
		{8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b"},
		{16384, "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4"},
		{31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
		{32768, "162183d1f9184474f5a5c9e6224e66720cdb6523f822e52d9b1efa30893f48f9"},
		{49152, "88c8baf84eb0b231f985d2be3540430506a9280fd0ec4cec74524bbc33bbc5df"},
		{81920, "3daa2b89500252062203576296f88829dfca427b83719b49b0993edea9ae39de"},
		{100000, "d93c23eedaf165a7e0be908ba86f1a7a520d568d2d13cde787c8580c5c72cc54"},
		{114688, "78b021b596c8d0f6c261ab1b62de460534ad5d67b17bfa6ccf5cdae73fbc1917"},
		{180224, "d68484a6c9525b00fea8e661df6ae8fdb0b06c009dee815b786f865a3a407211"},
		{245760, "775a8b432b070acbbed7c2f0a4347ec3e7137123f188a555984c0fd3128b8258"},
		{262144, "d57dc906e20d3fd326ffaa85535500486f46a0979f5a323f028dcabfd381fd4a"},
	} {
		sum := blake.Sum(b[:v.bytes])
		if got := hex.EncodeToString(sum[:]); got != v.want {
			t.Errorf("%d bytes: got %s, want %s", v.bytes, got, v.want)
		}
	}
}

// FuzzSum sums subtrees of a pattern that repeats at some other length than a vector's, and the pattern itself.
func FuzzSum(f *testing.F) {
	f.Add([]byte("BLAKE3"), uint8(16), uint8(9))
	f.Add([]byte{0}, uint8(2), uint8(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x80}, uint8(11), uint8(63))
	buf := make([]byte, blake.Largest+256)
	f.Fuzz(func(t *testing.T, pattern []byte, subtrees, offset uint8) {
		if len(pattern) == 0 {
			return
		}
		n := (1 + int(subtrees)%16) * (16 << 10)
		b := buf[offset:][:n:n]
		for done := 0; done < n; {
			done += copy(b[done:], pattern)
		}
		b[n/2] ^= subtrees
		for _, part := range [][]byte{b, b[:n-len(pattern)%n], pattern} {
			if blake.Sum(part) != blake3.Sum256(part) {
				t.Errorf("digest of %d bytes differs", len(part))
			}
		}
	})
}
