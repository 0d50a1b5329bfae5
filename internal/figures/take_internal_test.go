package figures

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// machine is a directory in the place of /proc.
func machine(t *testing.T, files map[string]string) proc {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proc(dir)
}

// TestTake: figures as the kernel and the driver say them.
func TestTake(t *testing.T) {
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	k := &taker{
		proc: machine(t, map[string]string{
			"loadavg":     "0.52 1.40 2.31 1/80 11206\n",
			"meminfo":     "MemTotal:       16303292 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\n",
			"self/status": "Name:\tswarmd\nVmHWM:\t  200000 kB\nVmRSS:\t  123456 kB\n",
		}),
		began: noon, now: func() time.Time { return noon.Add(90 * time.Second) },
		open:   func() Open { return Open{Out: 4, In: 3, Peers: 2} },
		gpus:   func() []string { return []string{"1", "GPU-8932", "7"} },
		disk:   asker[*unix.Statfs_t]{ask: func() *unix.Statfs_t { return &unix.Statfs_t{Blocks: 100, Bavail: 40, Bsize: 4096} }},
		driver: asker[[]driven]{ask: func() []driven { return readDriver([]byte(driverSays)) }},
	}
	f := k.take(t.Context())
	f.CPUs, f.CPUSeconds = nil, nil // of this machine
	got, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"taken_at":"2026-11-28T12:01:30Z","up_seconds":90,"cpus":null,"load_1":0.52,"load_5":1.4,"load_15":2.31,"daemon_cpu_seconds":null,` +
		`"memory_total_bytes":16694571008,"memory_available_bytes":9216000000,"daemon_memory_bytes":126418944,"gpus":[` +
		`{"name":"NVIDIA H200","memory_total_bytes":150754820096,"memory_used_bytes":4194304,"busy_percent":97},` +
		`{"name":"Tesla, T4","memory_total_bytes":null,"memory_used_bytes":null,"busy_percent":null},` +
		`{"name":"7","memory_total_bytes":null,"memory_used_bytes":null,"busy_percent":null}],` +
		`"disk_total_bytes":409600,"disk_free_bytes":163840,"streams_opened_by_it":4,"streams_opened_by_others":3,"connected_peers":2}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := Read(got); err != nil {
		t.Error(err)
	}
}

const driverSays = `0, GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, "Tesla, T4", [N/A], [N/A], [Not Supported]
1, GPU-1aa, NVIDIA H200, 143771, 4, 97
`

// TestAHostileDriver: an answer in another form is none, and a long one is cut.
func TestAHostileDriver(t *testing.T) {
	for answer, want := range map[string]int{
		"": 0, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n": 0, "0, a, b\n": 0, driverSays: 2, driverSays + "2, x\n" + driverSays: 2,
		strings.Repeat("0, GPU-1, \x1b[2Jx, 18446744073709551615, -1, 101\n", 100): maxGPUs,
	} {
		got := readDriver([]byte(answer))
		if len(got) != want {
			t.Errorf("%.40q: %d GPUs", answer, len(got))
		}
		if want == maxGPUs && (got[0].Name != "x" || got[0].MemoryTotal != nil || got[0].MemoryUsed != nil || got[0].BusyPercent != nil) {
			t.Errorf("%+v", got[0])
		}
	}
	var b bounded
	for range 10 {
		if n, err := b.Write(make([]byte, maxAnswer/4)); n != maxAnswer/4 || err != nil {
			t.Fatal(n, err)
		}
	}
	if b.Len() != maxAnswer {
		t.Errorf("%d bytes are kept", b.Len())
	}
}

// TestOddFiles: what the kernel does not say, or says otherwise, is not reported.
func TestOddFiles(t *testing.T) {
	for _, files := range []map[string]string{
		{},
		{"loadavg": "", "meminfo": ""},
		{"loadavg": "0.1 0.2", "meminfo": "MemTotal: x kB\nMemTotal: 1 MB\nMemTotal: 99999999999999999999 kB"},
		{"loadavg": "NaN -1 1e99 1/1 1", "meminfo": "MemTotal: kB"},
		{"meminfo": strings.Repeat("x", maxFile) + "\nMemTotal: 5 kB\n"},
	} {
		p := machine(t, files)
		if got := p.load(); got != [3]*float64{} {
			t.Errorf("%.40q: load %v", files["loadavg"], got)
		}
		if got := p.kibibytes("meminfo", "MemTotal"); got != nil {
			t.Errorf("%.40q: %d bytes", files["meminfo"], *got)
		}
	}
}

// TestADiskThatHangs: it holds up nothing but its own figures, is asked once, and is there again when it answers.
func TestADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		mend := make(chan struct{})
		k := &taker{proc: "/proc", began: time.Now(), now: time.Now, gpus: func() []string { return nil }, disk: asker[*unix.Statfs_t]{ask: func() *unix.Statfs_t {
			asked.Add(1)
			<-mend
			return &unix.Statfs_t{Blocks: 2, Bavail: 1, Bsize: 512}
		}}}
		for range 3 {
			begun := time.Now()
			if f := k.take(t.Context()); f.DiskTotal != nil || f.CPUs == nil || time.Since(begun) != answerTimeout {
				t.Errorf("after %v: %+v", time.Since(begun), f)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		k.take(gone) // nobody waits for it
		close(mend)
		synctest.Wait()
		if f := k.take(t.Context()); f.DiskTotal == nil || *f.DiskTotal != 1024 || asked.Load() != 2 {
			t.Errorf("asked %d times: %+v", asked.Load(), f)
		}
	})
}
