/* A USB cable without a serial port, for a program that reads it by hidapi: loaded before that
   library. It is a CH9325: a report has 8 bytes, the low half of the first one says how many of the
   others are data (sigrok's wiki, Device cables). They come from the file $HID_CABLE; what the
   cable is set to (rate, least byte first) is written to $HID_CABLE.set. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

struct hid_device_info {
    char *path;
    unsigned short vendor_id, product_id;
    wchar_t *serial_number;
    unsigned short release_number;
    wchar_t *manufacturer_string, *product_string;
    unsigned short usage_page, usage;
    int interface_number;
    struct hid_device_info *next;
};

static struct hid_device_info cable = {
    .path = "/dev/hidraw0", .vendor_id = 0x1a86, .product_id = 0xe008,
    .serial_number = L"", .manufacturer_string = L"WCH.CN", .product_string = L"USB to Serial"
};
static int line = -1;

int hid_init(void) { return 0; }
int hid_exit(void) { return 0; }
void hid_free_enumeration(struct hid_device_info *found) {}
void hid_close(void *device) { close(line); }
int hid_set_nonblocking(void *device, int wanted) { return 0; }
int hid_get_feature_report(void *device, unsigned char *data, size_t length) { return length; }
const wchar_t *hid_error(void *device) { return L""; }
int hid_get_serial_number_string(void *device, wchar_t *text, size_t most) { return -1; }

struct hid_device_info *hid_enumerate(unsigned short vendor, unsigned short product) {
    int is_cable = (!vendor || vendor == cable.vendor_id) && (!product || product == cable.product_id);
    return is_cable && getenv("HID_CABLE") ? &cable : NULL;
}

void *hid_open_path(const char *path) {
    line = open(getenv("HID_CABLE"), O_RDWR | O_NOCTTY);
    return line < 0 ? NULL : &line;
}

int hid_write(void *device, const unsigned char *data, size_t length) {
    return length < 2 ? -1 : write(line, data + 1, data[0] & 0x0f);
}

int hid_send_feature_report(void *device, const unsigned char *data, size_t length) {
    char name[4096];
    snprintf(name, sizeof name, "%s.set", getenv("HID_CABLE"));
    FILE *file = fopen(name, "w");
    for (size_t at = 1; file && at < length; at++) fprintf(file, "%02x ", data[at]);
    if (file) fclose(file);
    return length;
}

int hid_read_timeout(void *device, unsigned char *data, size_t most, int milliseconds) {
    struct pollfd waits = { line, POLLIN, 0 };
    if (most < 8 || poll(&waits, 1, milliseconds) <= 0) return 0;
    memset(data, 0, 8);
    int count = read(line, data + 1, 7);
    if (count <= 0) return count;
    data[0] = 0xf0 | count;
    return 8;
}

int hid_read(void *device, unsigned char *data, size_t most) {
    return hid_read_timeout(device, data, most, 0);
}
