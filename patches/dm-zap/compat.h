/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * Included before every source file of dm-zap (roles/dm_zap: ccflags-y := -include): the kernel
 * functions it calls that have been removed since it was written, in terms of today's.
 * What, why and since when: patches/README.md.
 */
#ifndef ZONELAB_DM_ZAP_COMPAT_H
#define ZONELAB_DM_ZAP_COMPAT_H

#include <linux/version.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/vmalloc.h> /* blkdev.h and bio.h no longer bring vmalloc() along */

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
/* Removed for bio_alloc_clone(), which sets the device at once. */
static inline struct bio *bio_clone_fast(struct bio *bio, gfp_t gfp, struct bio_set *set)
{
	return bio_alloc_clone(bio->bi_bdev, bio, gfp, set);
}
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
/* Removed because %pg prints the name; the buffer has always been of BDEVNAME_SIZE. */
static inline const char *bdevname(struct block_device *bdev, char *buffer)
{
	snprintf(buffer, BDEVNAME_SIZE, "%pg", bdev);
	return buffer;
}

/* Removed for bdev_zone_sectors(); the zone size is the queue's chunk. */
static inline sector_t blk_queue_zone_sectors(struct request_queue *queue)
{
	return queue->limits.chunk_sectors;
}

/* Renamed to bdev_nr_zones(), which takes the block device. */
static inline unsigned int blkdev_nr_zones(struct gendisk *disk)
{
	return bdev_nr_zones(disk->part0);
}
#endif

#endif /* ZONELAB_DM_ZAP_COMPAT_H */
