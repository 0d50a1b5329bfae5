package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of an image.
const (
	maxImageText    = 512 // bytes of its name, and of why it is not known
	maxImageDigests = 64
)

// Image is the one that a task runs or fetches, as its host has found it before anybody decides on the task. Whatever its name stands for
// later, this one is meant.
type Image struct {
	Name    string   `json:"name"`              // as the task has it
	ID      string   `json:"id,omitempty"`      // sha256:… at the host's engine; empty: it is to be fetched
	Digests []string `json:"digests,omitempty"` // sha256:…, by which registries know it; none: it was built on the host, or is Unknown
	Unknown string   `json:"unknown,omitempty"` // why nobody can tell yet which one it is; empty: it is known
	// Others are those that the task has besides, by name: see NewImages.
	Others []Image `json:"others,omitempty"`
	// Passes says that somebody may tell soon. It is not kept.
	Passes bool `json:"-"`
}

// NewImage returns an image by its name, its ID and what registries call it. It fails where that is more than anybody could list.
func NewImage(name, id string, digests ...string) (*Image, error) {
	i := &Image{Name: name, ID: id, Digests: digests}
	if err := i.Check(); err != nil {
		return nil, fmt.Errorf("image %.200s: %w", text.Line(name), err)
	}
	return i, nil
}

// UnknownImage returns one of which nobody can tell yet which it is, and why.
func UnknownImage(name, why string) *Image {
	clip := func(s string) string { return text.Clip(text.Line(strings.ToValidUTF8(s, "?")), maxImageText) }
	return &Image{Name: clip(name), Unknown: clip(why)}
}

// UnknownYet is one of which somebody may tell soon which it is.
func UnknownYet(name, why string) *Image {
	i := UnknownImage(name, why)
	i.Passes = true
	return i
}

// Check holds an image to its bounds and to the form of digests.
func (i *Image) Check() error {
	switch {
	case i.Name == "" || len(i.Name) > maxImageText || len(i.Unknown) > maxImageText:
		return fmt.Errorf("its name has %d bytes: want 1 to %d", len(i.Name), maxImageText)
	case len(i.Digests) > maxImageDigests:
		return fmt.Errorf("it has %d digests in registries, at most %d: remove names of it that nobody needs", len(i.Digests), maxImageDigests)
	case (i.Unknown == "") != (len(i.Values()) > 0):
		return errors.New("it has no digest, and nothing says why")
	}
	for _, d := range i.Values() {
		if !isImageDigest(d) {
			return fmt.Errorf("%.80q is no digest", d)
		}
	}
	return i.checkOthers()
}

// Values are the digests that stand for the image: what registries call it, and its ID. None: it is not known.
func (i *Image) Values() []string {
	if i.ID == "" {
		return i.Digests
	}
	return append(i.Digests[:len(i.Digests):len(i.Digests)], i.ID)
}

// String is the image's digest, of several the one that stands for all, with its name, for people who decide on it: what is cut off at the end of a line is the name.
func (i *Image) String() string {
	if all := i.Signable(); len(all) > 0 {
		return all[0] + " (" + i.names() + ")"
	}
	yet := ""
	if i.Passes {
		yet = " yet"
	}
	return i.Name + " is not known by any digest" + yet + ": " + i.Unknown
}

func isImageDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && isHex(digits)
}
