package transfer

import (
	"context"
	"errors"
	"slices"

	"atrium"
	"atrium/internal/store"
)

// flush stores the chunk.
func (im *importer) flush(ctx context.Context) error {
	if err := im.decode(ctx); err != nil || len(im.chunk) == 0 {
		return err
	}
	if err := im.setProspectIDs(); err != nil {
		return err
	}
	err := im.storeParts(ctx)
	clear(im.chunk) // releases the memory of the lines
	im.chunk, im.lines, im.bytes = im.chunk[:0], im.lines[:0], 0
	im.free()
	return err
}

// setProspectIDs sets the identifiers of prospects in the chunk that are matched by their values. It refuses to derive identifiers
// in an import that also names some: a check, which stores nothing, would say whether guesses of values have the identifier of an
// erased prospect.
func (im *importer) setProspectIDs() error {
	for i, item := range im.chunk {
		p, ok := item.Record.(*atrium.LinkedProspect)
		if !ok {
			continue
		}
		im.names = im.names || p.ID != ""
		im.derives = im.derives || item.MatchBy != store.ByIdentifier
		if im.names && im.derives {
			return im.stop(im.lines[i], atrium.Fault{In: atrium.InBody, Where: "/matchBy", Detail: "must not be in one import with prospectId"})
		}
		if item.MatchBy == store.ByIdentifier {
			continue
		}
		matcher, err := im.matcher()
		if err != nil {
			return &StopError{im.lines[0], false, err}
		}
		matcher.SetID(item)
	}
	return nil
}

// storeParts stores the chunk in parts of at most partRows rows or one record.
func (im *importer) storeParts(ctx context.Context) error {
	for first := 0; first < len(im.chunk); {
		rows, end := store.Rows(im.chunk[first].Record), first+1
		for ; end < len(im.chunk); end++ {
			if rows += store.Rows(im.chunk[end].Record); rows > partRows {
				break
			}
		}
		if im.limits.Recheck != nil {
			if err := im.limits.Recheck(ctx); err != nil {
				return &StopError{im.lines[first], false, err}
			}
		}
		if err := im.store(im.chunk[first:end], im.lines[first:end]); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// storeTries is the maximum number of attempts to store a record that concurrent imports store as
// well.
const storeTries = 4

// once stores the records of a part of the chunk that are not stored yet.
func (im *importer) once(chunk []store.Import) (unstored []int, imported store.Imported, err error) {
	if unstored, err = im.compare(chunk); err != nil || len(unstored) == 0 {
		return nil, imported, err
	}
	missing := make([]store.Import, len(unstored))
	for i, index := range unstored {
		missing[i] = chunk[index]
	}
	imported, err = im.target(missing)
	return unstored, imported, err
}

// store stores a part of the chunk. It halves the part if it is too large to compare with the
// stored records at once.
func (im *importer) store(chunk []store.Import, lines []int) error {
	if len(chunk) == 0 {
		return nil
	}
	unstored, imported, err := im.once(chunk)
	for try := 1; errors.Is(err, store.ErrChunkTooLarge) && len(chunk) == 1 && try < storeTries; try++ {
		unstored, imported, err = im.once(chunk) // a concurrent import has stored it
	}
	if errors.Is(err, store.ErrChunkTooLarge) && len(chunk) > 1 {
		half := len(chunk) / 2
		if err := im.store(chunk[:half], lines[:half]); err != nil {
			return err
		}
		return im.store(chunk[half:], lines[half:])
	}
	if refused, ok := errors.AsType[*store.ImportError](err); ok {
		at := func(index int) int {
			if len(unstored) > 0 {
				return unstored[index]
			}
			return index
		}
		index := at(refused.Index)
		out, err := im.leaveOut(chunk, lines, refused, at)
		if err != nil {
			return err
		}
		if len(out) > 0 {
			return im.store(without(chunk, out), without(lines, out))
		}
		return &LineError{
			Line: lines[index], ResumeFrom: lines[0],
			Faults: []atrium.Fault{{In: atrium.InBody, Where: "/" + refused.Member, Detail: refused.Detail}},
		}
	}
	if err != nil {
		return &StopError{lines[0], false, err}
	}
	im.report.Added += imported.Added
	im.report.Same += len(chunk) - imported.Added
	im.report.LinkedProspects += imported.Linked
	im.report.UnlinkedProspects += imported.Unlinked
	return nil
}

// leaveOut returns the indexes of the records of a part that are skipped, or whose faults are reported, because
// they cannot be stored; none if that ends the import. at returns the index in the part.
func (im *importer) leaveOut(chunk []store.Import, lines []int, refused *store.ImportError, at func(int) int) (out []int, err error) {
	for _, index := range refused.Existing {
		if im.skipExisting && skippable(chunk[at(index)].Record) {
			out = append(out, at(index))
		}
	}
	im.report.Same += len(out)
	if len(out) > 0 || !im.allFaults {
		return out, nil
	}
	indexes := refused.Existing
	if len(indexes) == 0 {
		indexes = []int{refused.Index}
	}
	for _, index := range indexes {
		out = append(out, at(index))
		fault := atrium.Fault{In: atrium.InBody, Where: "/" + refused.Member, Detail: refused.Detail}
		if err := im.collect(lines[at(index)], fault); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// skippable reports whether Options.SkipExisting skips a record.
func skippable(record store.Record) bool {
	switch record.(type) {
	case *atrium.Account, *atrium.LinkedProspect:
		return true
	}
	return false
}

// without returns the elements that are not at some indexes.
func without[E any](all []E, indexes []int) (rest []E) {
	for i, e := range all {
		if !slices.Contains(indexes, i) {
			rest = append(rest, e)
		}
	}
	return rest
}
