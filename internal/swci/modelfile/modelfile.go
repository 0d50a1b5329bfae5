// Package modelfile reads and writes the model files of swarmctl get model: safetensors, with what is known of the model beside
// its tensors. A file is whatever somebody gave; it has one form, and anything else is refused.
package modelfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/swarmd/swarmd/merge"
)

// maxTensorHeader bounds what is read of a file before anything of it is checked: 100,000 tensors have a few MiB.
const maxTensorHeader = 64 << 20

// metadataKey is where safetensors keeps text beside the tensors.
const metadataKey = "__metadata__"

// tensorTypes are the element types by their names in safetensors.
var tensorTypes = map[merge.DType]string{
	merge.Float64: "F64", merge.Float32: "F32", merge.Float16: "F16", merge.BFloat16: "BF16", merge.Uint8: "U8", merge.Int8: "I8",
	merge.Int16: "I16", merge.Uint16: "U16", merge.Int32: "I32", merge.Uint32: "U32", merge.Int64: "I64", merge.Uint64: "U64",
	merge.Bool: "BOOL",
}

// Meta is what a model file says about itself.
type Meta struct {
	Swarm, Contract string
	Run, Round      uint64
	Digest, Method  string // digest in hex
	Final           bool
	Layout          *merge.Layout
}

// texts are the metadata as safetensors has them.
func (m Meta) texts() map[string]string {
	return map[string]string{
		"format": "swarmd model 1", "swarm": m.Swarm, "contract": m.Contract, "run": strconv.FormatUint(m.Run, 10), "round": strconv.FormatUint(m.Round, 10),
		"digest": m.Digest, "method": m.Method, "final": strconv.FormatBool(m.Final), "layout_digest": m.Layout.Digest().String(),
		"layout": string(m.Layout.Canonical()),
	}
}

// parseMeta reads what texts gave, and holds it together.
func parseMeta(t map[string]string) (Meta, error) {
	m := Meta{Swarm: t["swarm"], Contract: t["contract"], Digest: t["digest"], Method: t["method"], Final: t["final"] == "true"}
	if t["format"] != "swarmd model 1" {
		return m, errors.New("it is no model that swarmctl get model wrote: it lacks the metadata of one")
	}
	var runErr, roundErr, layoutErr error
	m.Run, runErr = strconv.ParseUint(t["run"], 10, 64)
	m.Round, roundErr = strconv.ParseUint(t["round"], 10, 64)
	_, digestErr := merge.ParseDigest(m.Digest)
	m.Layout, layoutErr = merge.ParseLayout([]byte(t["layout"]))
	if err := errors.Join(runErr, roundErr, digestErr, layoutErr); err != nil {
		return m, fmt.Errorf("its metadata are damaged: %w", err)
	}
	if got := m.Layout.Digest().String(); got != t["layout_digest"] {
		return m, fmt.Errorf("its layout has digest %.16s…, its metadata say %.16s", got, t["layout_digest"])
	}
	return m, nil
}

// Header is the beginning of the file: a length and JSON, the tensors in the layout's order without gaps.
func (m Meta) Header() ([]byte, error) {
	meta, err := json.Marshal(m.texts())
	if err != nil {
		return nil, err
	}
	b := append([]byte(`{"`+metadataKey+`":`), meta...)
	at := int64(0)
	for i := range m.Layout.Len() {
		t := m.Layout.Tensor(i)
		if t.Name == metadataKey {
			return nil, fmt.Errorf("a tensor is named %s, which safetensors keeps for itself", metadataKey)
		}
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, err
		}
		end := at + t.Elements()*int64(t.DType.Size())
		shape, err := json.Marshal(append([]int64{}, t.Shape...))
		if err != nil {
			return nil, err
		}
		b = append(append(b, ','), name...)
		b = fmt.Appendf(b, `:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, tensorTypes[t.DType], shape, at, end)
		at = end
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ') // tensors are aligned
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...), nil
}

// ReadHeader reads and checks the beginning of a file that may be anything.
func ReadHeader(r io.Reader) (Meta, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return Meta{}, errors.New("it is no safetensors file: it is too short")
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxTensorHeader {
		return Meta{}, fmt.Errorf("it is no safetensors file: its header would have %d bytes", n)
	}
	head, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return Meta{}, err
	}
	var entries map[string]json.RawMessage
	if uint64(len(head)) < n || json.Unmarshal(head, &entries) != nil {
		return Meta{}, errors.New("it is no safetensors file: its header is no JSON object")
	}
	var texts map[string]string
	if err := json.Unmarshal(entries[metadataKey], &texts); err != nil {
		return Meta{}, errors.New("it is no model that swarmctl get model wrote: it has no metadata")
	}
	m, err := parseMeta(texts)
	if err != nil {
		return m, err
	}
	want, err := m.Header()
	if err != nil {
		return m, err
	}
	if !bytes.Equal(want[8:], head) { // one model has one form: nothing else may be hidden in it
		return m, errors.New("its list of tensors is not that of its layout")
	}
	return m, nil
}

// vectorDigest digests a flat vector as it comes.
type vectorDigest struct {
	layout *merge.Layout
	leaf   []byte
	leaves []merge.Digest
}

// Write implements io.Writer; it never fails.
func (d *vectorDigest) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), d.layout.LeafSize()-len(d.leaf))
		d.leaf = append(d.leaf, p[:k]...)
		if p = p[k:]; len(d.leaf) == d.layout.LeafSize() {
			d.flush()
		}
	}
	return n, nil
}

func (d *vectorDigest) flush() {
	d.leaves = append(d.leaves, merge.Sum(d.leaf))
	d.leaf = d.leaf[:0]
}

// sum returns the digest of all that was written, in hex.
func (d *vectorDigest) sum() string {
	if len(d.leaf) > 0 {
		d.flush()
	}
	return merge.Combine(d.leaves).String()
}

// Writer takes a flat vector from its beginning and writes its tensors without the padding between them.
type Writer struct {
	layout *merge.Layout
	out    io.Writer
	at     int64 // in the vector
	tensor int
	digest vectorDigest
}

// Size is how many bytes the file of a model has, header and tensors.
func (m Meta) Size() (int64, error) {
	head, err := m.Header()
	if err != nil {
		return 0, err
	}
	size := int64(len(head))
	for i := range m.Layout.Len() {
		t := m.Layout.Tensor(i)
		size += t.Elements() * int64(t.DType.Size())
	}
	return size, nil
}

// NewWriter returns a writer of the tensors behind a header.
func NewWriter(l *merge.Layout, out io.Writer) *Writer {
	return &Writer{layout: l, out: out, digest: vectorDigest{layout: l}}
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if int64(len(p)) > w.layout.Bytes()-w.at {
		return 0, fmt.Errorf("the model is longer than %d bytes", w.layout.Bytes())
	}
	done := 0
	for done < len(p) {
		begin, end := w.span()
		k := len(p) - done
		if w.at < begin { // padding
			k = int(min(int64(k), begin-w.at))
		} else {
			k = int(min(int64(k), end-w.at))
			if _, err := w.out.Write(p[done : done+k]); err != nil {
				return done, err
			}
		}
		_, _ = w.digest.Write(p[done : done+k])
		done += k
		w.at += int64(k)
	}
	return done, nil
}

// Written is how many bytes of the vector have come.
func (w *Writer) Written() int64 { return w.at }

// Digest is that of the whole vector, once it has come, in hex.
func (w *Writer) Digest() string { return w.digest.sum() }

// span is where the next tensor lies that has bytes left. Behind the last one only padding is left, as a tensor without
// elements can make it.
func (w *Writer) span() (begin, end int64) {
	for ; w.tensor < w.layout.Len(); w.tensor++ {
		t := w.layout.Tensor(w.tensor)
		begin = w.layout.Offset(w.tensor)
		if end = begin + t.Elements()*int64(t.DType.Size()); end > w.at && end > begin {
			return begin, end
		}
	}
	return w.layout.Bytes(), w.layout.Bytes()
}

// DigestTensors reads the tensors of a model behind its header and returns the digest of the flat vector that they make.
func DigestTensors(r io.Reader, l *merge.Layout) (string, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	d := vectorDigest{layout: l}
	at := int64(0)
	for i := range l.Len() {
		t := l.Tensor(i)
		n := t.Elements() * int64(t.DType.Size())
		if n == 0 {
			continue
		}
		_, _ = d.Write(make([]byte, l.Offset(i)-at)) // at most seven
		if _, err := io.CopyN(&d, in, n); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the file ends within it")
			}
			return "", fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		at = l.Offset(i) + n
	}
	_, _ = d.Write(make([]byte, l.Bytes()-at))
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return "", errors.New("there is something behind the last tensor")
	}
	return d.sum(), nil
}
