package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of several images.
const (
	maxImages        = 16
	maxDigestsOfMany = 256 // of all together
)

// NewImages returns the images of a task that has several, as one: each is judged, and the task is carried out with all of them or not at all.
func NewImages(all ...*Image) (*Image, error) {
	if len(all) == 0 {
		return nil, errors.New("a task without an image has none")
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *Image) int { return strings.Compare(a.Name, b.Name) })
	first := *all[0]
	for _, i := range all[1:] {
		first.Others = append(first.Others, *i)
	}
	if err := first.Check(); err != nil {
		return nil, err
	}
	return &first, nil
}

// Each are the images one by one.
func (i *Image) Each() []Image {
	first := *i
	first.Others = nil
	return append([]Image{first}, i.Others...)
}

// Of is the image that a task has under a name; nil: none.
func (i *Image) Of(name string) *Image {
	if i == nil {
		return nil
	}
	for _, one := range i.Each() {
		if one.Name == name {
			return &one
		}
	}
	return nil
}

// checkOthers holds several images to their bounds. They are at the host's engine: none is to be fetched.
func (i *Image) checkOthers() error {
	if len(i.Others) == 0 {
		return nil
	}
	digests, last := 0, ""
	for n, one := range i.Each() {
		switch {
		case n >= maxImages:
			return fmt.Errorf("it is one of %d images, at most %d", len(i.Others)+1, maxImages)
		case len(one.Others) > 0:
			return errors.New("it is several images of several images")
		case one.ID == "" || one.Unknown != "":
			return errors.New("it is one of several images, and its ID is not known")
		case n > 0 && one.Name <= last:
			return errors.New("its names are not in their order")
		}
		last = one.Name
		if digests += len(one.Digests); digests > maxDigestsOfMany {
			return fmt.Errorf("it is one of several images that have more than %d digests in registries: remove names of them that nobody needs", maxDigestsOfMany)
		}
		if n == 0 {
			continue
		}
		if err := one.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Together is what stands for several images: sha256: and that of their IDs, sorted, each once, a line each.
func (i *Image) Together() string {
	var ids []string
	for _, one := range i.Each() {
		ids = append(ids, one.ID)
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(ids), "\n") + "\n"))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Signable are the digests, of which an approval may name one: of several images the one that stands for all.
func (i *Image) Signable() []string {
	if len(i.Others) > 0 {
		return []string{i.Together()}
	}
	return i.Values()
}

// names of several images.
func (i *Image) names() string {
	var all []string
	for _, one := range i.Each() {
		all = append(all, one.Name)
	}
	return strings.Join(all, ", ")
}
