package jobfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Whatever a file holds: it is refused, or what is read has a form that reads back as the same job.
func FuzzRead(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("name: d\nframework: dask\ncommand: a.py\ngroups: [{name: scheduler}, {name: worker, args: [--nthreads, 2]}]\n"))
	f.Add([]byte(daskOfOneKind))
	f.Add([]byte("name: x\nenv: {A: \"\\u2028\", B: ~, C: '- x', D: \"a\\n b\\t\", E: 0x1f, F: 1_000, G: yes}\n"))
	for _, large := range tooLarge() {
		f.Add([]byte(large))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := jobfile.Read("f", raw)
		if err != nil {
			return
		}
		again, err := jobfile.Read("", []byte(j.Text()))
		if err != nil {
			t.Fatalf("%v\n%s", err, j.Text())
		}
		if d := cmp.Diff(j, again, asWritten); d != "" {
			t.Fatalf("%s\n%s", d, j.Text())
		}
		if same, changes, err := j.Override(jobfile.Overrides{}); err != nil || len(changes) > 0 || !cmp.Equal(j, same, asWritten) {
			t.Fatalf("nothing was said, and it is another job: %v, %v\n%s", changes, err, cmp.Diff(j, same, asWritten))
		}
	})
}

// Whatever a peer sends as a body: it is refused, or the job that is read is written as one form, which reads back.
func FuzzBody(f *testing.F) {
	f.Add([]byte("name: x\n--- source\n755 text 11 a.sh\necho hello\n644 base64 1 b\nAA==\n"))
	f.Add([]byte("name: x\nreplicas: 3\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := jobfile.Decode(raw)
		if err != nil {
			return
		}
		body, err := j.Encode()
		if err != nil {
			return // it is larger as it is written
		}
		again, err := jobfile.Decode(body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if d := cmp.Diff(j, again, asWritten); d != "" {
			t.Fatalf("%s\n%s", d, body)
		}
	})
}
