// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "fmt"

// value is an attribute of an entry. The meaning of u depends on the form: a number, an offset or an index; of formString the offset of the
// text in .debug_info. Form 0 is a missing attribute.
type value struct {
	form uint16
	u    uint64
}

func (v value) ok() bool { return v.form != 0 }

// encoding is what sizes of fields depend on.
type encoding struct {
	version    uint8
	addrSize   uint8
	offsetSize uint8
}

// fixedSize is how many bytes a form takes, or -1 if that depends on the content.
func (e encoding) fixedSize(form uint16) int {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0
	case formData1, formRef1, formFlag, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formAddr:
		return int(e.addrSize)
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return int(e.offsetSize)
	case formRefAddr:
		if e.version <= 2 {
			return int(e.addrSize)
		}
		return int(e.offsetSize)
	}
	return -1
}

// skipForm skips an attribute.
func (c *cursor) skipForm(form uint16, e encoding) {
	if n := e.fixedSize(form); n >= 0 {
		c.skip(uint64(n))
		return
	}
	switch form {
	case formString:
		c.skipText()
	case formBlock1:
		c.skip(uint64(c.u8()))
	case formBlock2:
		c.skip(uint64(c.u16()))
	case formBlock4:
		c.skip(uint64(c.u32()))
	case formBlock, formExprloc:
		c.skip(c.uleb())
	case formIndirect:
		c.skipForm(c.indirect(), e)
	case formSdata, formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		c.skipLEB()
	default:
		c.fail(fmt.Errorf("unknown form %#x", form))
	}
}

// indirect reads the form of an attribute that contains its form; that must not be indirect again.
func (c *cursor) indirect() uint16 {
	form := c.uleb()
	if form == formIndirect || form == formImplicitConst || form > 0xffff {
		c.fail(fmt.Errorf("indirect form %#x", form))
		return formFlagPresent
	}
	return uint16(form)
}

// value reads an attribute. If no needed attribute has such a form, it returns only the form.
func (c *cursor) value(form uint16, implicit int64, e encoding) value {
	if form == formIndirect {
		form = c.indirect()
	}
	switch form {
	case formImplicitConst:
		return value{form, uint64(implicit)}
	case formFlagPresent:
		return value{form, 1}
	case formString:
		v := value{form, c.offset()}
		c.skipText()
		return v
	case formSdata:
		return value{form, uint64(c.sleb())}
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		return value{form, c.uleb()}
	}
	if n := e.fixedSize(form); n > 0 && n <= 8 {
		return value{form, c.fixed(n)}
	}
	c.skipForm(form, e)
	return value{form: form}
}

// constant reports whether the attribute is a number.
func (v value) constant() bool {
	switch v.form {
	case formData1, formData2, formData4, formData8, formSdata, formUdata, formImplicitConst:
		return true
	}
	return false
}

// number returns a line or a file's number, 0 when it is out of range.
func (v value) number() uint32 {
	if !v.constant() || v.u > 1<<32-1 {
		return 0
	}
	return uint32(v.u)
}
