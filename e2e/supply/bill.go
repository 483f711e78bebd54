package supply

import (
	"fmt"
	"io"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Linked is a module with its licence.
type Linked struct {
	Module
	Licence
}

// name is that of the program that the bill is about.
const name = "diapause"

// Read gives modules their licences.
func Read(modules []Module) ([]Linked, error) {
	linked := make([]Linked, 0, len(modules))
	for _, m := range modules {
		l, err := LicenceOf(m)
		if err != nil {
			return nil, err
		}
		linked = append(linked, Linked{Module: m, Licence: l})
	}
	return linked, nil
}

// WriteBill writes what is linked into diapause of a version, and what of others its console has, as CycloneDX 1.6, in JSON
// (https://cyclonedx.org/docs/1.6/json/). The same modules give the same bytes: it has neither a time
// nor a serial number.
func WriteBill(w io.Writer, version string, linked []Linked, vendored []*Vendored) error {
	components := make([]cdx.Component, 0, len(linked))
	parts := make([]string, 0, len(linked))
	for _, l := range linked {
		licences := make(cdx.Licenses, 0, len(l.IDs))
		for _, id := range l.IDs {
			licences = append(licences, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
		ref := fmt.Sprintf("pkg:golang/%s@%s", l.Path, l.Version)
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: l.Path, Version: l.Version,
			PackageURL: ref, Licenses: &licences,
		})
		parts = append(parts, ref)
	}
	for _, v := range vendored {
		c := v.component()
		components, parts = append(components, c), append(parts, c.BOMRef)
	}
	bill := cdx.NewBOM()
	bill.SpecVersion = cdx.SpecVersion1_6
	bill.SerialNumber = ""
	bill.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}}
	bill.Components = &components
	bill.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &parts}}
	if err := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

// WriteLicences writes the licence texts of what is linked, and of what the console has, which most of them ask to go with
// the program.
func WriteLicences(w io.Writer, linked []Linked, vendored []*Vendored) error {
	for _, l := range linked {
		if _, err := fmt.Fprintf(w, "=== %s %s\n\n%s", l.Path, l.Version, l.Text); err != nil {
			return fmt.Errorf("write the licences: %w", err)
		}
	}
	for _, v := range vendored {
		if _, err := fmt.Fprintf(w, "=== %s %s\n\n%s", v.Name, v.Version, v.Text); err != nil {
			return fmt.Errorf("write the licences: %w", err)
		}
	}
	return nil
}
